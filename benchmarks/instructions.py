"""How many instructions of the store does one finished item take, and how many those of another revision?

One agent over HTTP renews a claim, then completes items with a tag, one after the other, on a server under callgrind:
by three calls (claim, start, complete; with request ids and the claim's fence), by one of ``claim_item`` that ends the
last item, claims the next and starts it, and by two and by one of the worker toolset; another revision may lack the
single calls. Counted are the functions that the calls run and what they append to the log, with the C library's
allocator. Each call counts with the lower quartile of its rounds, so that what front-ends do beside it does not. A pair
of minimal scripts (``rivals/cycles.py``) is the lower bound. Unlike CPU times, the counts of two revisions can be
compared to a percent, also on a busy machine. They leave out what the kernel does: sockets and disk.

    python -m benchmarks instructions [--against REV] [ITEMS]
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any
from uuid import uuid4

from benchmarks.callgrind import Callgrind
from benchmarks.rivals.cycles import Cycles, PlainCalls
from benchmarks.support import Failed, ToolCalls, add_items, checkout, embedded, folder, front_end, revision_in, table

_TAG, _WARM = "counted", 3
_FURTHER = 200
"""Items that nobody takes: small indexes are searched from their beginning, which costs more than in large ones."""
_PATIENT: dict[str, Any] = {"redis_timeout_ms": 30_000, "request_deadline_ms": 40_000, "drain_seconds": 50}
_BARE = "bare pair of scripts"


class _Agent:
    """Completes items and counts what each of its calls takes."""

    def __init__(self, port: int, callgrind: Callgrind) -> None:
        self._tools, self._callgrind = ToolCalls(port, "agent-1"), callgrind
        self._actor = {"id": "agent-0", "kind": "subagent"}
        self.found: dict[str, list[float]] = {}
        self._held, self._claimed, self._renewed = "", "", ""
        """The items that the last calls have taken with an end, and the one whose claim is renewed."""

    def _call(self, name: str, toolset: str, tool: str, **arguments: Any) -> dict[str, Any]:
        self._callgrind.instructions()
        content = self._tools.ask(toolset, tool, **arguments)
        self.found.setdefault(name, []).append(self._callgrind.instructions())
        return content

    def _advance(self, trigger: str, claimed: dict[str, Any]) -> None:
        fence = {"itemId": claimed["itemId"], "fenceToken": claimed["fenceToken"]}
        asked = {"requestId": str(uuid4()), "transitions": [{**fence, "trigger": trigger, "actor": self._actor}]}
        self._call(trigger, "items", "advance_item", **asked)

    def three_calls(self) -> None:
        """Claims, starts and completes an item."""
        asked = {"claims": [{"selector": {"tags": _TAG}}], "actor": self._actor, "requestId": str(uuid4())}
        (claimed,) = self._call("claim", "items", "claim_item", **asked)["claimResults"]
        self._advance("start", claimed)
        self._advance("complete", claimed)

    def renewal(self) -> None:
        """Renews the claim of an item."""
        if not self._renewed:
            asked = {"claims": [{"selector": {"tags": _TAG}}], "actor": self._actor, "requestId": str(uuid4())}
            self._renewed = self._tools.ask("items", "claim_item", **asked)["claimResults"][0]["itemId"]
        asked = {"claims": [{"itemId": self._renewed}], "actor": self._actor, "requestId": str(uuid4())}
        self._call("renewal", "items", "claim_item", **asked)

    def one_claim(self) -> None:
        """Completes the item of the last call, claims the next and starts it."""
        released = [{"itemId": self._claimed, "reason": "done"}] if self._claimed else []
        asked = {"claims": [{"selector": {"tags": _TAG}}], "start": True, "releases": released}
        content = self._call("claim_item", "items", "claim_item", **asked, actor=self._actor, requestId=str(uuid4()))
        self._claimed = content["claimResults"][0]["itemId"]

    def two_calls(self) -> None:
        """Completes an item by the worker toolset."""
        if not self._call("work_next", "worker", "work_next", tags=_TAG, waitMs=0).get("item"):
            raise Failed("work_next found no item")
        self._call("work_done", "worker", "work_done")

    def one_call(self) -> None:
        """The same; the call that ends one item takes the next."""
        if not self._held:
            self._held = self._tools.ask("worker", "work_next", tags=_TAG, waitMs=0)["item"]["id"]
        given = {"itemId": self._held, "next": {"tags": _TAG, "waitMs": 0}}
        self._held = self._call("work_done with next", "worker", "work_done", **given)["next"]["item"]["id"]

    def close(self) -> None:
        """Closes the connection."""
        self._tools.close()


def _rounds(work: Callable[[], None], found: dict[str, list[float]], rounds: int) -> dict[str, float]:
    for number in range(_WARM + rounds):
        if number == _WARM:
            found.clear()
        work()
    return {name: quantiles(counts)[0] for name, counts in found.items()}


def _bare(url: str, callgrind: Callgrind, rounds: int) -> dict[str, float]:
    """A pair of minimal scripts, as ``_rounds``."""
    plain, found = PlainCalls("bare"), dict[str, list[float]]()
    plain.fill(url, _WARM + rounds + _FURTHER)
    with contextlib.closing(Cycles(url, plain, 1)) as cycles:

        def pair() -> None:
            callgrind.instructions()
            cycles.run(1)
            found.setdefault(_BARE, []).append(callgrind.instructions())

        return _rounds(pair, found, rounds)


def count(rounds: int, tree: Path | None = None) -> dict[str, dict[str, float]]:
    """Instructions per finished item on a store of its own: way of working -> call -> the lower quartile of its rounds.

    Args:
        tree: a checkout whose front-end answers; None: this one.
    """
    calls = {}
    with folder() as home:
        callgrind = Callgrind(home)
        with embedded("no", callgrind.binary()) as store, front_end(store.url, tree, **_PATIENT) as front:
            agent = _Agent(front.port, callgrind)
            add_items(front.port, _FURTHER + 4 * (_WARM + rounds) + 1, tags=_TAG)
            ways = {
                "renewal": agent.renewal,
                "three calls": agent.three_calls,
                "one claim_item": agent.one_claim,
                "two calls of worker": agent.two_calls,
                "one work_done": agent.one_call,
            }
            for name, work in ways.items():
                with contextlib.suppress(*[Failed] if tree and name.startswith("one") else ()):
                    calls[name] = _rounds(work, agent.found, rounds)
                agent.found = {}
            agent.close()
            calls[_BARE] = _bare(store.url, callgrind, rounds)
    return calls


def main(*arguments: str) -> None:
    """Counts and prints; the arguments are those of the module's docstring."""
    given = list(arguments)
    against = revision_in(given)
    (rounds,) = (int(value) for value in (*given, *("40",)[len(given) :]))
    ours, theirs = count(rounds), dict[str, dict[str, float]]()
    if against is not None:
        with checkout(against) as tree:
            theirs = count(rounds, tree)
    bare = sum(ours[_BARE].values())
    rows = []
    for way, calls in ours.items():
        others = theirs.get(way, {})
        if len(calls) > 1:
            rows += [(f"  {name}", f"{one:,.0f}", "", _ratio(one, others.get(name))) for name, one in calls.items()]
        total = sum(calls.values())
        rows.append((way, f"{total:,.0f}", f"{total / bare:.1f}x", _ratio(total, sum(others.values()))))
    columns = ("", "instructions", "to the bare pair", f"to {against}" if against else "")
    table(f"Instructions of the store per finished item, {rounds} rounds", columns, rows)


def _ratio(one: float, other: float | None) -> str:
    return f"{one / other:.3f}x" if other else ""
