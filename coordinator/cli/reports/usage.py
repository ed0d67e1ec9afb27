"""``fleet usage``: what agents have used, by item, agent, model or day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import aligned, print_as
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.items import UsageReport, UsageRow, UsageSum, read_usage
from coordinator.units import clock, money
from coordinator.wording import printable

_UNNAMED = {"agent": "(nobody)", "model": "(no model)"}


@with_settings(only=STORE_SETTINGS)
def usage(
    loaded: LoadedSettings,
    *,
    by: Annotated[Literal["item", "agent", "model", "day"], Parameter(help="What to sum by.")] = "item",
    limit: Annotated[int, Parameter(help="How many lines. [1 to 1000]")] = 50,
    json: Annotated[bool, Parameter(help="Print as JSON.")] = False,
    project: Annotated[str, Parameter(help="The project.")] = DEFAULT_PROJECT,
) -> None:
    check_range("--limit", limit, 1, 1000)

    async def read(store: Store) -> UsageReport:
        found = await read_usage(store, project, by, limit)
        if not found.rows and (why := await unwritten(store, project)):
            raise CommandFailed(why, Exit.USAGE)
        return found

    found = with_store(loaded, read)
    print_as(found, _lines(found, project), json)


def _lines(found: UsageReport, project: str) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("cost", "tokens", "in", "cached", "out", "time", found.by)]
    rows += [(*_cells(row.sum), _name(row, found.by)) for row in found.rows]
    rows.append((*_cells(found.total), f"project {project}"))
    yield from aligned(rows, right=range(len(rows[0]) - 1))
    if len(found.rows) < found.count:
        yield f"first {len(found.rows)} of {found.count}"


def _cells(found: UsageSum) -> tuple[str, ...]:
    return (
        money(found.cost_micro_usd),
        f"{found.tokens:,}",
        f"{found.input_tokens:,}",
        f"{found.cached_tokens:,}",
        f"{found.output_tokens:,}",
        clock(found.wall_ms),
    )


def _name(row: UsageRow, by: str) -> str:
    named = printable(row.name) if row.name else _UNNAMED.get(by, "")
    title = f"  {printable(row.title)}" if isinstance(row.title, str) else ""
    return f"{named}{title}{'  (budget spent)' if row.budget_spent is True else ''}"
