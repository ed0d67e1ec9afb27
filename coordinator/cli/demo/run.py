"""One run of the demo: find a fleet, build the tree, let the agents loose, audit the project."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import redis.asyncio
from redis.exceptions import RedisError

from coordinator.cli.demo import build, fleet, history, report, work
from coordinator.cli.demo.agent import Behaviour
from coordinator.cli.demo.agent_processes import AgentProcesses
from coordinator.cli.demo.board import Board
from coordinator.cli.demo.calls import Caller, Endpoint, Refused
from coordinator.cli.demo.graph import Graph
from coordinator.cli.demo.history import Event
from coordinator.cli.demo.report import Report
from coordinator.cli.demo.watch import Watch
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.stores import open_store
from coordinator.cli.terminal import counted
from coordinator.client.retries import Retryable
from coordinator.errors import ToolFailure
from coordinator.settings import Settings, redacted
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit

_LOOK_MS = 100
_STALL_SECONDS = 60.0
"""A run in which nothing happens for this long (and ten times the TTL) has failed."""
_BATCH = 500
_STORE_MS = 5000


class Options(msgspec.Struct, frozen=True):
    """What was asked for."""

    graph: Graph
    agents: int
    trees: int
    url: str | None
    project: str | None
    """Kept afterwards; None for one of the run's own, which is removed."""
    crash_rate: float
    work_ms: float
    ttl_seconds: int
    seed: str
    wait_ms: int
    """How long claims wait for an item; 0: agents poll."""
    chaos_seconds: float | None
    """Between two kills; None for none."""


async def run(options: Options, settings: Settings) -> Report:
    """Runs the demo and returns what it showed.

    Raises:
        CommandFailed: it cannot begin.
    """
    target = fleet.running(settings, options.url)
    if options.chaos_seconds is not None and target is not None and target.data_dir is None:
        raise CommandFailed("--chaos kills processes of a fleet on this machine: give its --data-dir", Exit.USAGE)
    async with AsyncExitStack() as stack:
        processes = AgentProcesses(options.agents)
        stack.push_async_callback(processes.stop)
        await processes.start()
        if target is None:
            say("no fleet is running here: starting one for the demo")
            target = await stack.enter_async_context(fleet.own(settings))
        try:
            # The project is removed within the block, because that fails too where the Redis is gone.
            async with history.connect(target.redis_url) as client, new_project(client, options.project) as project:
                await fleet.check_open(target)
                return await _run_in(project, options, target, client, processes)
        except (RedisError, ToolFailure) as error:
            raise CommandFailed(
                f"the Redis at {redacted(target.redis_url)} cannot be read: {error}", Exit.STORE_UNREACHABLE
            ) from None
        except (Refused, Retryable) as error:
            raise CommandFailed(
                f"the work cannot be put into the fleet at {redacted(target.base_url)}: {error}"
            ) from None


def say(text: str) -> None:
    """A line for the person at the terminal."""
    print(text, flush=True)


async def _run_in(
    project: str, options: Options, target: fleet.Target, client: redis.asyncio.Redis, processes: AgentProcesses
) -> Report:
    items = work.plan(options.graph, options.trees)
    url = f"{target.base_url}/p/{project}/mcp/items"
    began = time.monotonic()
    async with Caller(Endpoint(url, per_second=10.0)) as caller:
        plan = await build.build(caller, items)
    edges = sum(len(item.blockers) for item in items)
    say(
        f"{len(plan)} items and {edges} dependencies of {options.graph.source} "
        f"are in project {project} at {redacted(target.base_url)} ({time.monotonic() - began:.1f} s)"
    )
    behaviour = Behaviour(
        work_ms=options.work_ms,
        ttl_seconds=options.ttl_seconds,
        crash_rate=options.crash_rate,
        # Idle agents together ask about 50 times a second, however many there are.
        idle_limit=max(0.25, options.agents / 40),
        wait_ms=options.wait_ms,
    )
    chaos = None
    if options.chaos_seconds is not None and target.data_dir is not None:
        chaos = fleet.Chaos(target.data_dir, options.chaos_seconds)
    shared = counted(processes.count, "process", "processes")
    say(f"{counted(options.agents, 'agent')} in {shared} (seed {options.seed})")
    processes.order(url, options.seed, behaviour)
    board = Board(plan)
    failures = await _drain(board, options, history.follow(client, project, _LOOK_MS), processes, chaos)
    say("auditing ...")
    tally = processes.tally
    failures += tally.failures
    differences = await audited(target, project, board, (len(plan), len(plan), edges))
    return Report(
        ok=not failures and not differences,
        source=options.graph.source,
        notes=options.graph.notes,
        distributions=len(options.graph.packages),
        requirements=options.graph.edges,
        trees=options.trees,
        items=len(plan),
        items_done=board.items_done,
        steps=board.steps,
        steps_done=board.steps_done,
        project=project,
        base_url=redacted(target.base_url),
        agents=options.agents,
        agent_processes=processes.count,
        seed=options.seed,
        seconds=board.seconds,
        steps_per_second=round(board.steps_done / board.seconds, 1) if board.seconds else 0.0,
        latency={tool: report.latency(samples) for tool, samples in tally.latencies.items()},
        calls=sum(map(len, tally.latencies.values())),
        retries=dict(tally.retries),
        agent_counts=dict(tally.counts),
        claims=board.claims,
        most_claimed=board.most_claimed,
        expiries=board.expiries,
        claims_lost=tally.counts["claim_already_claimed"],
        claims_in_vain=tally.counts["claims_in_vain"],
        polls=tally.counts["polls"],
        crashes=tuple(tally.crashes),
        kills=chaos.kills if chaos is not None else 0,
        kills_skipped=chaos.skipped if chaos is not None else 0,
        differences=differences,
        failures=tuple(failures),
    )


async def audited(target: fleet.Target, project: str, board: Board, planned: tuple[int, int, int]) -> tuple[str, ...]:
    """What was not done once, and where the stored items, their indexes and their counters do not agree.

    Args:
        planned: how many items, items that are done and dependencies there have to be.
    """
    store = await open_store(target.redis_url, _STORE_MS)
    try:
        found = await audit(store, project)
    finally:
        await store.close()
    differences = [f"{title}: done more than once" for title in board.repeated]
    differences += [f"{difference.key}: {difference.problem}" for difference in found.differences] + found.unjudged
    stored = found.items, found.terminal, found.edges
    if stored != planned:
        differences.append(
            "{} items, {} of them done, and {} dependencies are stored; ".format(*stored)
            + "by the plan there are {}, {} and {}".format(*planned)
        )
    return tuple(differences)


async def _drain(
    board: Board,
    options: Options,
    followed: AsyncIterator[list[Event]],
    processes: AgentProcesses,
    chaos: fleet.Chaos | None,
) -> list[str]:
    """Lets the agents work until everything is done; returns what kept them from it."""
    failures: list[str] = []
    limit = max(_STALL_SECONDS, 10.0 * options.ttl_seconds)
    killer: asyncio.Task[None] | None = None
    try:
        with Watch(board, processes.tally, chaos, options.agents) as watch:
            moved = time.monotonic()
            async for events in followed:
                before = board.steps_done
                board.apply(events)
                watch.look()
                if board.all_done or processes.tally.failures:
                    break
                if board.steps_done != before:
                    moved = time.monotonic()
                if killer is None and chaos is not None and board.claimed:
                    # From the first claim on: killing a fleet that idles shows nothing.
                    killer = asyncio.create_task(chaos.run())
                if time.monotonic() - moved > limit:
                    failures.append(
                        f"nothing was done for {limit:.0f} s: {board.steps_done} of {board.steps} steps are done"
                    )
                    break
    finally:
        if killer is not None:
            killer.cancel()
        await processes.stop()
    # The rest: what agents did before they ended.
    async for events in followed:
        if not events:
            break
        board.apply(events)
    return failures


@asynccontextmanager
async def new_project(client: redis.asyncio.Redis, name: str | None) -> AsyncIterator[str]:
    """A project that nobody has worked in; one without a name is removed afterwards.

    Raises:
        CommandFailed: somebody has worked in the named one.
    """
    project = name or f"demo-{uuid.uuid4().hex[:8]}"
    if await client.exists(keys.events.key(project)):
        raise CommandFailed(
            f"project {project} has been used already, and the audit counts all that is in it: choose a new name",
            Exit.USAGE,
        )
    try:
        yield project
    finally:
        if name is None:
            await _remove(client, project)


async def _remove(client: redis.asyncio.Redis, project: str) -> None:
    batch: list[Any] = []
    async for key in client.scan_iter(match=keys.project_prefix(project) + b"*", count=_BATCH):
        batch.append(key)
        if len(batch) == _BATCH:
            await client.unlink(*batch)
            batch.clear()
    if batch:
        await client.unlink(*batch)
