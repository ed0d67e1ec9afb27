"""Many runners over one fleet, of which everything is killed while they finish a graph of dependencies."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from coordinator.client import Fleet
from coordinator.demo.source import installed
from coordinator.runner import records
from tests.support.fleets import RunningCommand, RunningFleet
from tests.support.wait import wait_until

Victim = Literal["runner", "supervisor", "command", "both", "front-end", "store"]
VICTIMS: tuple[Victim, ...] = ("runner", "supervisor", "command", "both", "front-end", "store")
"""Both: a runner with all of its supervisors, so that nobody is left who ends what commands have started."""

AGENT = """#!/bin/sh
cat > /dev/null
exec 9> "$1/locks/$FLEET_ITEM_ID"
flock -n 9 || echo "$FLEET_ITEM_ID" >> "$1/overlaps"
setsid sh -c 'trap "" TERM HUP INT; sleep 300' 9>&- &
sleep "0.$(( $$ % 4 ))" 9>&-
echo "$FLEET_ITEM_ID $FLEET_RUN" >> "$1/ledger"
echo "$FLEET_RUN" > "$FLEET_RESULT_FILE"
"""
"""Says that it has succeeded at its very end. Two commands on one item at once would be seen."""


class Chaos:
    """The runners of one test.

    Args:
        count: how many there are.
    """

    def __init__(self, running: RunningFleet, fleet: Fleet, directory: Path, count: int, seed: int) -> None:
        self._running, self._fleet = running, fleet
        self._place, self._count = directory, count
        self._random = random.Random(seed)
        self._state = directory / "state"
        self._runners: list[RunningCommand] = []
        self._held = ExitStack()
        self._started = 0
        self.killed: Counter[Victim] = Counter()
        for name in ("work", "locks"):
            (directory / name).mkdir()
        self._agent = directory / "agent.sh"
        self._agent.write_text(AGENT)
        self._agent.chmod(0o755)
        self.root = ""
        self.items: list[str] = []

    async def build(self, size: int) -> None:
        """Creates the items: packages that are installed here, each after those that it requires."""
        graph = requirements()
        names = sorted(graph, key=lambda name: -len(graph[name]))[: size // 4]
        for name in names:  # what they require comes with them
            names += [one for one in graph[name] if one not in names and len(names) < size]
        edges = [(one, name) for name in names for one in graph[name] if one in names]
        create = {"operation": "create", "items": [{"title": "packages", "tags": "root"}]}
        self.root = (await self._fleet.call("manage_items", create))["items"][0]["id"]
        items = [{"title": name, "parentId": self.root, "maxAttempts": 0} for name in names]
        made = await self._fleet.call("manage_items", {"operation": "create", "items": items})
        ids = dict(zip(names, (one["id"] for one in made["items"]), strict=True))
        self.items = list(ids.values())
        dependencies = [{"fromItemId": ids[one], "toItemId": ids[other]} for one, other in edges]
        for at in range(0, len(dependencies), 150):
            part = dependencies[at : at + 150]
            await self._fleet.call("manage_dependencies", {"operation": "create", "dependencies": part})

    def start(self) -> None:
        """Starts the runners that do not run, as a service manager would."""
        self._runners = [one for one in self._runners if one.process.poll() is None]
        while len(self._runners) < self._count:
            self._started += 1
            words = ["run", "--slots", "2", "--ttl", "10", "--until-tree", self.root, "--state-dir", str(self._state)]
            words += ["--workspace", str(self._place / "work"), "--min-free", "0", "--drain", "20"]
            words += ["--url", self._fleet.url, "--project", self._fleet.project]
            words += ["--", str(self._agent), str(self._place)]
            runner = RunningCommand(self._place / f"runner-{self._started}", *words)
            self._held.callback(runner.clean_up)
            self._runners.append(runner)

    def kill(self, victim: Victim) -> None:
        """Kills one process of this kind, if there is one."""
        pids = list(self._victims(victim))
        if not pids:
            return
        for pid in pids if victim == "both" else [self._random.choice(pids)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed[victim] += 1

    def _victims(self, victim: Victim) -> Iterator[int]:
        living = [one.process.pid for one in self._runners if one.process.poll() is None]
        if victim == "runner":
            yield from living
        elif victim == "both" and living:
            runner = self._random.choice(living)
            yield from (runner, *children(runner))
        elif victim == "supervisor":
            yield from (pid for runner in living for pid in children(runner))
        elif victim == "command":
            yield from (pid for runner in living for above in children(runner) for pid in children(above))
        elif victim == "front-end":
            yield from (one.pid for one in self._running.state.processes if one.pid and one.slot.startswith("fe-"))
        elif victim == "store" and (pid := self._running.state.store_pid):
            yield pid

    async def open(self) -> int:
        """How many items are not finished."""
        seen: dict[str, Any] = await self._fleet.call(
            "get_context", {"itemId": self.root, "waitFor": "tree_terminal", "waitMs": 0}
        )
        counts = seen["waited"]["counts"]
        return sum(number for role, number in counts.items() if role != "terminal")

    def successes(self) -> int:
        """How many commands have succeeded so far."""
        ledger = self._place / "ledger"
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0

    async def survive(self, kills: int, step: int, seconds: float) -> None:
        """Kills one process whenever ``step`` further commands have succeeded, each kind in turn; then finishes."""
        self.start()
        for number in range(kills):
            wanted = self.successes() + step

            async def moved(wanted: int = wanted) -> bool:
                self.start()
                return self.successes() >= wanted or not await self.open()

            await wait_until(moved, seconds, "further commands have succeeded")
            self.kill(VICTIMS[number % len(VICTIMS)])
        await self.finish(seconds)
        await self.check()

    async def finish(self, seconds: float) -> None:
        """Waits until all is done, with runners that are started again."""

        async def finished() -> bool:
            self.start()
            return not await self.open()

        await wait_until(finished, seconds, "all items are finished")
        await wait_until(lambda: all(one.process.poll() is not None for one in self._runners), what="runners end")

    async def check(self) -> None:
        """Each item was finished once, by a command that had succeeded; nothing runs any more."""
        ledger = {tuple(line.split()) for line in (self._place / "ledger").read_text().splitlines()}
        for item in self.items:
            found = await self._fleet.call("query_items", {"operation": "get", "id": item})
            ends = [one for one in found["transitions"] if one["toRole"] == "terminal"]
            assert found["role"] == "terminal", found
            assert len(ends) == 1, found
            notes = await self._fleet.call("query_notes", {"operation": "list", "itemId": item})
            result = next(note["body"] for note in notes["notes"] if note["key"] == "result")
            assert (item, result) in ledger, f"{item} was completed by {result}, which has not succeeded"
        assert not (self._place / "overlaps").exists(), "two commands worked on one item at once"
        records.prepare(self._state)
        assert list((self._state / "live").iterdir()) == []
        assert left_of(self._place) == []

    def close(self) -> None:
        """Ends what runs."""
        self._held.close()
        records.prepare(self._state)


def requirements() -> dict[str, list[str]]:
    """The packages that are installed here, and what each requires."""
    found = {}
    for package in installed().plan["children"]:
        (build,) = (step for step in package["children"] if step["ref"].endswith("/build"))
        found[package["ref"]] = [one.removesuffix("/build") for one in build["after"] if one.endswith("/build")]
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has started, by its main thread."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def left_of(place: Path) -> list[int]:
    """Processes that were started for items below this directory, which their environment shows."""
    found = []
    mark = f"FLEET_WORKSPACE={place}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
