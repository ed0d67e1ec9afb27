"""How long does loading definitions take, and what do the navigator's tools cost against health_check?

Loads every set of workflows several times, and checks it for changes. Then starts a front-end on them
and makes calls over one connection, one at a time, each kind in turn, so that other load on the machine
affects all alike: the navigation tools on states from a full walk, and the tools that show definitions.
Prints p50 and p99 of the time from request to answer, against health_check, the cheapest tool. Calls are bare: what a
client library takes for each would bring the ratios closer to 1.

    python -m benchmarks navigation [DIRECTORIES] [CALLS]
    python -m benchmarks navigation /a/set,/another/set 2000     # comma-separated; the examples by default
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.support import Failed, ToolCalls, console, embedded, front_end, milliseconds, table
from coordinator.definitions import Definitions, shipped

GOAL = 2.0
_READS = 5
_ACTIONS = 120
_TOOLSET = "navigator"
Json = dict[str, Any]


def _read(roots: list[Path]) -> None:
    rows: list[tuple[str, ...]] = []
    for root in roots:
        loaded = Definitions([root], poll_seconds=0, quiet=True).current
        whole: list[float] = []
        look: list[float] = []
        for _ in range(_READS):
            definitions = Definitions([root], poll_seconds=0, quiet=True)
            began = time.perf_counter()
            loaded = definitions.current
            read = time.perf_counter()
            definitions.poll(())
            whole.append(read - began)
            look.append(time.perf_counter() - read)
        toon = sum(1 for _ in root.rglob("*.toon"))
        seconds = median(whole)
        rows.append(
            (
                root.name,
                f"{loaded.files} ({toon} TOON)",
                str(len(loaded.workflows)),
                f"{seconds * 1000:,.0f}",
                f"{seconds / max(loaded.files, 1) * 1e6:,.0f}",
                f"{median(look) * 1000:,.1f}",
            )
        )
    columns = ("set", "files", "workflows", "to read ms", "per file us", "to look again ms")
    table(f"Reading definitions, median of {_READS}", columns, rows)


def _walked(front: ToolCalls, workflow: str, first: Json) -> list[Json]:
    """The situations of a walk that takes required steps first, then optional ones."""
    now = first
    seen = [now]
    visited = {now["position"]["activity"]["id"]}
    while len(seen) < _ACTIONS:
        offers = [*now["availableActions"]["required"], *now["availableActions"]["optional"]]
        todo = [one for one in offers if one["action"] in ("complete_step", "respond_to_checkpoint", "advance_loop")]
        ways = [one for one in offers if one["action"] == "transition" and one["activity"] not in visited]
        if not todo and not ways:
            break
        visited |= set() if todo else {ways[0]["activity"]}
        now = front.ask(_TOOLSET, "nav_action", **_arguments(front, workflow, now, (todo or ways)[0]))
        seen.append(now)
    return seen


def _arguments(front: ToolCalls, workflow: str, now: Json, offer: Json) -> Json:
    arguments: Json = {"state": now["state"], "action": offer["action"]}
    if offer["action"] == "complete_step":
        return {**arguments, "step_id": offer["step"]}
    if offer["action"] == "transition":
        return {**arguments, "activity_id": offer["activity"]}
    if offer["action"] == "advance_loop":
        return {**arguments, "loop_id": offer["loop"], **({"loop_items": ["one"]} if "loopItems" in offer else {})}
    where = {"workflow_id": workflow, "activity_id": now["position"]["activity"]["id"]}
    found = front.ask(_TOOLSET, "get_checkpoint", **where, checkpoint_id=offer["checkpoint"])
    return {**arguments, "checkpoint_id": offer["checkpoint"], "option_id": found["options"][0]["id"]}


class Situation(NamedTuple):
    """A place on a walk through a workflow."""

    workflow: str
    now: Json
    """The answer that led to it."""

    @property
    def activity(self) -> str:
        """The id of its activity."""
        found: str = self.now["position"]["activity"]["id"]
        return found


def _situations(front: ToolCalls) -> list[Situation]:
    """Situations from walks through every workflow that can be started."""
    found: list[Situation] = []
    listed = front.ask(_TOOLSET, "list_workflows")["result"]
    for workflow in (one["id"] for one in listed):
        with contextlib.suppress(Failed):  # it cannot be started
            first = front.ask(_TOOLSET, "nav_start", workflow_id=workflow)
            found += [Situation(workflow, now) for now in _walked(front, workflow, first)]
    if not found:
        raise Failed("no workflow can be started")
    return found


def _steps(situations: list[Situation]) -> list[Json]:
    """An action for each situation that has a step to complete."""
    found: list[Json] = []
    for situation in situations:
        offers = situation.now["availableActions"]["required"]
        found += [
            {"state": situation.now["state"], "action": "complete_step", "step_id": offer["step"]}
            for offer in offers
            if offer["action"] == "complete_step"
        ]
    return found


def _measure(front: ToolCalls, calls: int) -> dict[str, list[float]]:
    situations = _situations(front)
    steps = _steps(situations)
    random.Random(7).shuffle(situations)

    def at(number: int) -> Situation:
        return situations[number % len(situations)]

    kinds: dict[str, Any] = {
        "health_check": lambda n: ("health_check", {}),
        "nav_start": lambda n: ("nav_start", {"workflow_id": at(n).workflow}),
        "nav_situation": lambda n: ("nav_situation", {"state": at(n).now["state"]}),
        "nav_checkpoint": lambda n: ("nav_checkpoint", {"state": at(n).now["state"]}),
        "nav_action": lambda n: ("nav_action", steps[n % len(steps)]),
        "get_workflow_activity": lambda n: (
            "get_workflow_activity",
            {"workflow_id": at(n).workflow, "activity_id": at(n).activity},
        ),
        "get_workflow": lambda n: ("get_workflow", {"workflow_id": at(n).workflow}),
        "get_activities": lambda n: ("get_activities", {}),
    }
    waits: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(calls + calls // 10):
        for name, make in kinds.items():
            tool, arguments = make(number)
            seconds, _ = front.call(_TOOLSET, tool, **arguments)
            if number >= calls // 10:
                # Earlier calls warm up.
                waits[name].append(seconds)
    lengths = sorted(len(situation.now["state"]) for situation in situations)
    console.print(
        f"{len(situations)} situations; states of {lengths[0]:,} to {lengths[-1]:,} characters, "
        f"{lengths[len(lengths) // 2]:,} in the middle"
    )
    return waits


def main(directories: str = "", calls: str = "500") -> None:
    """Reads, measures and prints."""
    roots = [Path(one) for one in directories.split(",") if one] or [shipped()]
    _read(roots)
    workflows = ",".join(str(root.absolute()) for root in roots)
    with (
        embedded("everysec") as store,
        front_end(store.url, navigator_workflows=workflows) as server,
        contextlib.closing(ToolCalls(server.port)) as front,
    ):
        waits = _measure(front, int(calls))
    base = waits["health_check"]
    rows: list[tuple[str, ...]] = []
    worst = 0.0
    for name, found in waits.items():
        times = [milliseconds(found, share) for share in (0.5, 0.99)]
        ratios = [time / milliseconds(base, share) for time, share in zip(times, (0.5, 0.99), strict=True)]
        worst = max(worst, ratios[1])
        rows.append((name, *(f"{time:.2f}" for time in times), *(f"{ratio:.2f}x" for ratio in ratios)))
    columns = ("tool", "p50 ms", "p99 ms", "p50 to health_check", "p99 to health_check")
    table(f"The navigator's tools over HTTP, {calls} calls of each, one at a time", columns, rows)
    console.print(f"p99 against health_check: {worst:.2f}x at most (goal <= {GOAL}x)\n")
