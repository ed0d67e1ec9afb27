"""Does a front-end at twice its capacity keep its throughput, and shed the rest quickly?

One front-end and one store, loaded with items; an open-loop generator (``openloop``) sends a mix of calls of all
classes. One after the other:

- **herd**: 1,000 agents claim the same item at the same moment;
- **capacity**: the highest throughput of a closed loop, over several numbers of connections;
- **overload**: twice that, by arrivals fixed in advance, in rounds of at most 30 seconds with the capacity measured
  again before each and after the last, because the speed of shared machines changes within a minute. Figures are those
  of all calls of all rounds. Goodput counts calls answered with a result. The classes are shed in their order and calls
  of each kind cost different amounts, so goodput is also given by work: each call counts the front-end's CPU time for
  its kind when it runs alone. It is also given per second of the front-end's CPU time, which is the same on an idle
  machine and changes little on a busy one;
- **slow store**: at half the capacity over a link with a delay, each answer of the store is delayed by 100 ms
  (``delay``): after how long the first call was shed and the limit was halved, and how long after the end of the delay
  the last call was shed.

All figures are the clients', from the scheduled time of a call, so they include the generator's lateness. The generator
does not call by the client library, which would repeat calls that were shed and so hide what is measured. It shares the
machine's cores with front-end and store, and on two cores its CPU time is missing to these: goodput and tail latencies
look worse than with a generator elsewhere. So does other load on the machine; the load average (of one minute) is
printed beside each figure.

    python -m benchmarks overload [SECONDS] [FSYNC] [AGENTS] [ITEMS] [PAUSE]
    python -m benchmarks overload 60 always 1000
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from benchmarks.load import Generator, generating
from benchmarks.loader import FAMILY, PROJECT, Shape, item_id, load_now
from benchmarks.openloop import BROKEN, FAILED, OK, REQUEST_ID, SHED, Calls, Kind, Plan, request
from benchmarks.server import items_on
from benchmarks.support import (
    Failed,
    FrontEnd,
    accepted,
    console,
    cpu_us,
    embedded,
    folder,
    front_end,
    memory,
    metrics,
    milliseconds,
    table,
)
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.tool import Call, Criticality, Tool

AGENTS = 256
_CLOSED = (64, 128, 256)
_ROUND_SECONDS = 30.0
_CAPACITY_SECONDS, _COST_SECONDS = 3.0, 1.0
_DELAY_MS = 100
_POLL_SECONDS = 0.05
_CALM_SECONDS = 11.0

_LIMITED: dict[str, Any] = {"overload": {}}
"""The limits by default."""

Json = dict[str, Any]


class Asked(NamedTuple):
    """A kind of call, before it is rendered into requests."""

    name: str
    tool: str
    weight: float
    arguments: list[Json]


def _signed(agent: int, **arguments: Any) -> Json:
    return {"actor": {"id": f"agent-{agent}", "kind": "subagent"}, "requestId": REQUEST_ID, **arguments}


def mix(fences: Sequence[int], items: int) -> list[Asked]:
    """A typical mix of calls: agents that renew, work and read, others that look for work, people who search.

    Args:
        fences: those of the agents' claims on the first items.
        items: how many there are.
    """

    def task(number: int) -> str:
        return dashed(item_id(number * 7919 % items))

    def feature(number: int) -> str:
        return dashed(item_id(number * FAMILY % items))

    agents = range(len(fences))
    actors = [{"id": f"agent-{n}", "kind": "subagent"} for n in agents]
    note = {"key": "findings", "role": "work", "body": "What was found. " * 8}
    renew = [[{"itemId": dashed(item_id(n)), "fenceToken": fences[n]}] for n in agents]
    moves = [
        {"transitions": [{"itemId": task(n), "trigger": trigger, "actor": actors[n]}], "requestId": REQUEST_ID}
        for n in agents
        for trigger in ("block", "resume")
    ]
    return [
        Asked("search", "query_items", 8, [{"operation": "search", "tags": f"area-{n:02d}"} for n in range(20)]),
        Asked("overview", "query_items", 3, [{"operation": "overview", "itemId": feature(n)} for n in range(100)]),
        Asked("next", "get_next_item", 8, [{"limit": 3, "tags": f"area-{n:02d}"} for n in range(20)]),
        Asked("claim", "claim_item", 15, [_signed(1000 + n, claims=[{"itemId": task(n)}]) for n in agents]),
        Asked("create", "manage_items", 6, [_signed(n, operation="create", items=[{"title": "More"}]) for n in agents]),
        Asked("note", "manage_notes", 11,
              [_signed(n, operation="upsert", notes=[{**note, "itemId": task(n)}]) for n in agents]),
        Asked("get", "query_items", 12, [{"operation": "get", "id": task(n)} for n in agents]),
        Asked("context", "get_context", 8, [{"itemId": task(n)} for n in agents]),
        Asked("notes", "query_notes", 5, [{"operation": "list", "itemId": task(n)} for n in agents]),
        Asked("renew", "claim_item", 12, [_signed(n, claims=renew[n]) for n in agents]),
        Asked("advance", "advance_item", 8, moves),
    ]  # fmt: skip


class Found(NamedTuple):
    """The results of one run."""

    calls: Calls
    cpu: float
    """Seconds that the front-end was busy."""
    load: float
    """The machine's load average, at the start."""

    def count(self, outcome: int) -> int:
        """Calls with this outcome."""
        return self.calls.outcome.count(outcome)

    def by_kind(self, outcome: int | None) -> Counter[int]:
        """Calls with this outcome (None: any), by the number of their kind."""
        pairs = zip(self.calls.kind, self.calls.outcome, strict=True)
        return Counter(kind for kind, how in pairs if outcome in (None, how))


def _waits(runs: Sequence[Found], outcome: int) -> list[float]:
    """Latencies of the calls with this outcome, in seconds."""
    return [took for one in runs for took, how in zip(one.calls.took, one.calls.outcome, strict=True) if how == outcome]


async def _prepared(url: str) -> tuple[list[int], dict[str, Tool]]:
    """The fences of the agents' claims; and the tools, by name."""
    async with items_on(url) as (tools, _):
        fences = []
        for agent in range(AGENTS):
            claims = [{"itemId": dashed(item_id(agent)), "ttlSeconds": 86_400}]
            given = msgspec.convert(
                {**_signed(agent, claims=claims), "requestId": str(uuid4())}, tools["claim_item"].arguments
            )
            result: Any = await tools["claim_item"].handler(Call(PROJECT), given)
            accepted("claim_item", msgspec.to_builtins(result))
            fences.append(result.claim_results[0].fence_token)
        return fences, tools


def run(fleet: FrontEnd, plan: Plan, meanwhile: Callable[[Generator], object] = lambda _: None) -> Found:
    """Runs a plan.

    Args:
        meanwhile: is called while it runs.

    Raises:
        Failed: calls were refused other than by shedding, or connections were lost.
    """
    load = os.getloadavg()[0]
    with generating(plan) as generator:
        before = cpu_us(fleet.pid)
        meanwhile(generator)
        calls = generator.measured()
        found = Found(calls, (cpu_us(fleet.pid) - before) / 1e6, load)
    if (refused := found.count(FAILED)) or found.count(BROKEN) or not calls.outcome:
        raise Failed(f"{refused} calls were refused, {found.count(BROKEN)} connections lost: {calls.refusal}")
    return found


def capacity(fleet: FrontEnd, kinds: tuple[Kind, ...], seconds: float) -> Found:
    """The best of closed loops with several numbers of connections."""
    seconds = min(seconds, _CAPACITY_SECONDS)
    found = [run(fleet, Plan(fleet.port, count, kinds, seconds)) for count in _CLOSED]
    return max(found, key=lambda one: one.count(OK))


Row = tuple[str, str, str, str, str]


def _row(what: str, value: float, form: str, goal: float, held: bool, load: float) -> Row:
    """One line of the result: the figure, its goal, whether it was held, and the machine's load."""
    return what, form.format(value), form.format(goal), "held" if held else "[red]missed[/red]", f"{load:.1f}"


def overload(
    fleet: FrontEnd,
    asked: list[Asked],
    kinds: tuple[Kind, ...],
    tools: dict[str, Tool],
    seconds: float,
    connections: int,
) -> list[Row]:
    """Twice the capacity."""
    costs = [_cost(fleet, kind, seconds) for kind in kinds]
    rounds = max(1, round(seconds / _ROUND_SECONDS))
    peaks, found, sizes = [capacity(fleet, kinds, seconds)], [], list[int]()

    def weigh(generator: Generator) -> None:
        while generator.works:
            sizes.append(memory(fleet.pid, "Rss:"))
            time.sleep(min(0.5, seconds / 8))

    for _ in range(rounds):
        rate = 2 * max(1, peaks[-1].count(OK)) / peaks[-1].calls.seconds
        found.append(run(fleet, Plan(fleet.port, connections, kinds, seconds / rounds, rate), weigh))
        peaks.append(capacity(fleet, kinds, seconds))
    classes = [_class_of(one, tools) for one in asked]
    _tell(asked, classes, costs, found, peaks)

    def rate_of(runs: Sequence[Found], weigh: bool, cpu: bool) -> float:
        """Throughput per second, of time or of the front-end's CPU time."""
        done = sum(count * (costs[kind] if weigh else 1) for one in runs for kind, count in one.by_kind(OK).items())
        return max(1, done) / sum(one.cpu if cpu else one.calls.seconds for one in runs)

    goodput, work, by_cpu = (
        rate_of(found, *how) / rate_of(peaks, *how) for how in ((False, False), (True, False), (False, True))
    )
    critical = {number for number, one in enumerate(classes) if one is Criticality.CRITICAL}
    shed = sum(count for one in found for kind, count in one.by_kind(SHED).items() if kind in critical)
    early, late = sizes[len(sizes) // 4 :][: len(sizes) // 4 or 1], sizes[-(len(sizes) // 4 or 1) :]
    growth = max(late) / max(early)
    admitted, turned_away = (milliseconds(_waits(found, outcome), 0.99) for outcome in (OK, SHED))
    load = max(one.load for one in found)
    return [
        _row("goodput at 2x capacity, of peak", goodput, "{:.2f}", 0.9, goodput >= 0.9, load),
        _row("the same by work", work, "{:.2f}", 0.9, work >= 0.9, load),
        _row("the same for a second of the front-end's CPU", by_cpu, "{:.2f}", 0.9, by_cpu >= 0.9, load),
        _row("p99 of admitted calls, ms", admitted, "{:.1f}", 250, admitted < 250, load),
        _row("p99 of shed answers, ms", turned_away, "{:.1f}", 10, turned_away < 10, load),
        _row("critical calls shed", shed, "{:.0f}", 0, shed == 0, load),
        _row("front-end memory, last quarter to second", growth, "{:.3f}", 1.05, growth < 1.05, load),
    ]


def _class_of(asked: Asked, tools: dict[str, Tool]) -> Criticality:
    tool = tools[asked.tool]
    given = {name: str(uuid4()) if name == "requestId" else value for name, value in asked.arguments[0].items()}
    return tool.weigh(msgspec.convert(given, tool.arguments))


def _cost(fleet: FrontEnd, kind: Kind, seconds: float) -> float:
    """CPU time of the front-end for one call of a kind, in microseconds."""
    alone = run(fleet, Plan(fleet.port, 32, (kind,), min(seconds, _COST_SECONDS)))
    return alone.cpu / max(1, len(alone.calls.outcome)) * 1e6


def _tell(
    asked: list[Asked], classes: list[Criticality], costs: list[float], found: list[Found], peaks: list[Found]
) -> None:
    ok, shed, every = (sum((one.by_kind(how) for one in found), Counter()) for how in (OK, SHED, None))
    rows = []
    for number, one in enumerate(asked):
        total = max(1, every[number])
        rows.append((
            one.name, classes[number].label, f"{costs[number]:.0f}", f"{every[number]:,}",
            f"{ok[number] / total:.1%}", f"{shed[number] / total:.1%}",
        ))  # fmt: skip
    columns = ("call", "class", "front-end us alone", "asked for", "answered", "shed")
    seconds = sum(one.calls.seconds for one in found)
    table(f"twice the capacity for {seconds:.0f} s: {every.total() / seconds:,.0f} calls/s", columns, rows)
    late = milliseconds([wait for one in found for wait in one.calls.late], 0.99)
    codes = sum((Counter(one.calls.shed) for one in found), Counter())
    tops = " ".join(f"{one.count(OK) / one.calls.seconds:,.0f}" for one in peaks)
    admitted, turned_away = (milliseconds(_waits(found, how), 0.5) for how in (OK, SHED))
    by_round = " ".join(f"{milliseconds(_waits([one], SHED), 0.99):.1f}" for one in found)
    console.print(
        f"peaks {tops} calls/s; answered {ok.total() / seconds:,.0f}/s, shed {shed.total() / seconds:,.0f}/s, "
        f"unanswered {sum(one.calls.unanswered for one in found)}; admitted p50 {admitted:.1f} ms, shed p50 "
        f"{turned_away:.1f} ms, p99 by round {by_round}; front-end busy {sum(one.cpu for one in found) / seconds:.0%}; "
        f"sent late p99 {late:.1f} ms; shed by code {dict(codes)}; with Retry-After "
        f"{sum(one.calls.retry for one in found):,}"
    )


def slow_store(
    server: EmbeddedServer, kinds_at: Callable[[int], tuple[Kind, ...]], connections: int, pause: float
) -> list[Row]:
    """100 ms before each answer of the store, for a fifth of the time: ``pause`` seconds."""
    before, _, path = server.url.rpartition("@")
    with folder() as home, contextlib.ExitStack() as stack:
        between = str(home / "between.sock")
        command = (sys.executable, "-m", "benchmarks.delay", path, between)
        proxy = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        stack.callback(proxy.terminate)
        told, tell = proxy.stdout, proxy.stdin
        assert told is not None
        assert tell is not None
        told.readline()
        fleet = stack.enter_context(front_end(f"{before}@{between}", config=_LIMITED))
        kinds = kinds_at(fleet.port)
        peak = capacity(fleet, kinds, pause)
        plan = Plan(fleet.port, connections, kinds, 5 * pause, max(1, peak.count(OK)) / peak.calls.seconds / 2)
        seen: list[tuple[float, float]] = []
        marks: list[float] = []

        def delay(generator: Generator) -> None:
            began = time.monotonic()
            for until, ms in ((pause, _DELAY_MS), (2 * pause, 0), (math.inf, None)):
                while generator.works and time.monotonic() < began + until:
                    seen.append((time.monotonic(), _limit(fleet.port)))
                    time.sleep(_POLL_SECONDS)
                if ms is not None:
                    tell.write(b"%d\n" % ms)
                    tell.flush()
                    marks.append(time.monotonic())
                    told.readline()

        found = run(fleet, plan, delay)
    return _slow_rows(found.calls, seen, marks, found.load)


def _slow_rows(calls: Calls, seen: list[tuple[float, float]], marks: list[float], load: float) -> list[Row]:
    slow, quick = marks
    usual = [limit for at, limit in seen if at < slow][-1]
    halved = next((at for at, limit in seen if at > slow and limit <= usual / 2), math.inf) - slow
    # The time of the answers, not of the calls: that is when admission had decided.
    shed = sorted(
        calls.began + at + took
        for at, took, how in zip(calls.at, calls.took, calls.outcome, strict=True)
        if how == SHED
    )
    first = next((at for at in shed if at > slow), math.inf) - slow
    last = max((at for at in shed if at > quick), default=quick) - quick
    ended = [(calls.began + at, took, how) for at, took, how in zip(calls.at, calls.took, calls.outcome, strict=True)]
    while_slow = milliseconds([took for at, took, how in ended if slow + 1 < at < quick and how == OK], 0.99)
    rest = [how for at, _, how in ended if at > quick + 10 and how in (OK, SHED)]
    answered = rest.count(OK) / max(1, len(rest))
    console.print(
        f"slow store at {len(calls.at) / calls.seconds:,.0f} calls/s: first call shed after {first:.2f} s, "
        f"limit {usual:.0f} halved after {halved:.2f} s (the gauge is set four times a second); after the end the last "
        f"call was shed at {last:.2f} s; answered from 10 s after it on {answered:.1%}"
    )
    trips = min(first, halved)
    return [
        _row(f"{_DELAY_MS} ms more in the store: trips after, s", trips, "{:.2f}", 1, trips <= 1, load),
        _row("p99 of admitted calls meanwhile, ms", while_slow, "{:.0f}", 3 * _DELAY_MS, while_slow <= 300, load),
        _row("recovers after, s", last, "{:.2f}", 10, last <= 10 and answered > 0.99, load),
    ]


def _limit(port: int) -> float:
    found = metrics(port)
    return next(value for name, value in found.items() if name.startswith("coordinator_concurrency_limit{"))


def herd(fleet: FrontEnd, agents: int, items: int, rounds: int = 3) -> list[Row]:
    """All agents claim the same item at once."""
    waits: list[float] = []
    loads, winners, losers, shed = [], [], [], 0
    for number in range(rounds):
        item = dashed(item_id(items // 2 + number))
        requests = tuple(
            request(fleet.port, "claim_item", _signed(10_000 + agent, claims=[{"itemId": item}]))
            for agent in range(agents)
        )
        before = metrics(fleet.port)
        found = run(fleet, Plan(fleet.port, agents, (Kind("herd", 1, requests),), 1.0, at_once=True))
        after = metrics(fleet.port)

        def more(name: str, before: dict[str, float] = before, after: dict[str, float] = after) -> int:
            return round(after[name] - before[name])

        winners.append(more('coordinator_claims_total{outcome="success"}'))
        losers.append(more('coordinator_claim_conflicts_total{kind="busy"}'))
        shed += found.count(SHED)
        waits += [took for took, how in zip(found.calls.took, found.calls.outcome, strict=True) if how == OK]
        loads.append(found.load)
        if found.count(SHED):
            # After shedding, a front-end queues calls only briefly for a while.
            time.sleep(_CALM_SECONDS)
    if not shed and set(winners) != {1}:
        raise Failed(f"of {agents:,} agents that claim an item, so many got it in each round: {winners}")
    p99, load = milliseconds(waits, 0.99), max(loads)
    console.print(
        f"herd: {rounds} rounds of {agents:,} agents; winners {winners}, conflicts counted {losers}, shed "
        f"{shed}; p50 {milliseconds(waits, 0.5):.0f} ms"
    )
    return [
        _row(f"{agents:,} agents, one item: winners, at most", max(winners), "{:.0f}", 1, set(winners) == {1}, load),
        _row("losers counted, at least", min(losers), "{:.0f}", agents - 1, set(losers) == {agents - 1}, load),
        _row("p99 of their answers, ms", p99, "{:.0f}", 250, p99 < 250, load),
    ]


def main(
    seconds: str = "60", fsync: str = "everysec", agents: str = "1000", items: str = "20000", pause: str = "4"
) -> None:
    """Measures all of it."""
    count, connections = int(items), 2 * int(agents)
    with embedded(fsync) as server, front_end(server.url, config=_LIMITED) as fleet:
        load_now(server.url, count, shape=Shape(tags=2, typed=True))
        fences, tools = asyncio.run(_prepared(server.url))
        asked = mix(fences, count)

        def kinds_at(port: int) -> tuple[Kind, ...]:
            return tuple(
                Kind(one.name, one.weight, tuple(request(port, one.tool, given) for given in one.arguments))
                for one in asked
            )

        rows = herd(fleet, int(agents), count)
        rows += overload(fleet, asked, kinds_at(fleet.port), tools, float(seconds), connections)
        rows += slow_store(server, kinds_at, connections, float(pause))
    table("overload", ("figure", "measured", "goal", "", "load"), rows)
