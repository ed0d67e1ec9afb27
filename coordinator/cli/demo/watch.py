"""The live view of a run: a small table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from coordinator.cli.demo.agent_processes import Tally
from coordinator.cli.demo.board import Board
from coordinator.cli.demo.fleet import Chaos

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_LINE_SECONDS = 2.0


class Watch(AbstractContextManager["Watch"]):
    """Prints progress.

    Args:
        agents: how many were asked for.
    """

    def __init__(self, board: Board, tally: Tally, chaos: Chaos | None, agents: int) -> None:
        self._board = board
        self._tally = tally
        self._chaos = chaos
        self._agents = agents
        self._began = time.monotonic()
        self._said = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            # Imported here: only a person at a terminal pays for rich.
            from rich.console import Console
            from rich.live import Live

            console = Console()
            if console.is_interactive:  # else the cursor cannot be moved
                self._live = Live(self._table(), console=console, refresh_per_second=8, transient=True)
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def look(self) -> None:
        """Shows how things are now."""
        if self._live is not None:
            self._live.update(self._table())
        elif time.monotonic() - self._said >= _LINE_SECONDS:
            self._said = time.monotonic()
            print(", ".join(f"{value} {name}" for name, value in self._facts()), flush=True)

    def _facts(self) -> list[tuple[str, str]]:
        board, tally = self._board, self._tally
        facts = [
            ("seconds", f"{time.monotonic() - self._began:.1f}"),
            ("done", f"{board.steps_done}/{board.steps}"),
            ("ready", str(board.ready)),
            ("claimed", str(board.claimed)),
            ("items/s", f"{board.rate:.0f}"),
            ("claims lost", str(tally.counts["claim_already_claimed"])),
            ("polls", str(tally.counts["polls"])),
            ("agents crashed", str(len(tally.crashes))),
            ("claims expired", str(board.expiries)),
            ("retries", str(sum(tally.retries.values()))),
        ]
        if self._chaos is not None:
            facts.append(("front-ends killed", str(self._chaos.kills)))
        return facts

    def _table(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_row(f"{self._agents} agents", ProgressBar(self._board.steps, self._board.steps_done, width=48))
        for name, value in self._facts():
            table.add_row(name, value)
        return table
