"""One run of the demo: find a fleet, plan the work, let the agents loose, audit the project."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import redis.asyncio
from redis.exceptions import RedisError

from coordinator.client import Denied, Fleet, FleetError
from coordinator.client.plans.plan import read
from coordinator.demo import board as boards
from coordinator.demo import fleet, report, work
from coordinator.demo.agents import Agents, Options
from coordinator.demo.board import Board, Event
from coordinator.errors import ToolFailure
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import open_store
from coordinator.projects.transfer import withdraw
from coordinator.settings import Settings, redacted
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.wording import counted

_LOOK_MS = 100
_LINE_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_STALL_SECONDS = 60.0
"""A run in which nothing happens for this long (and ten times the TTL) has failed."""
_BATCH = 500
_STORE_MS = 5000


async def run(options: Options, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Runs the demo, says how it goes, and returns what it showed. Raises ProcessProblem: it cannot begin."""
    target = fleet.running(settings, options.url)
    if options.chaos_seconds is not None and target is not None and target.data_dir is None:
        raise ProcessProblem("--chaos kills processes of a fleet on this machine: give its --data-dir", "usage")
    async with AsyncExitStack() as stack:
        if target is None:
            say("no fleet is running here: starting one for the demo")
            target = await stack.enter_async_context(fleet.own(settings))
        try:
            # The project is removed within the block, because that fails too where the Redis is gone.
            async with new_project(target.redis_url, options.project) as (client, project):
                return await _run_in(project, options, target, client, say)
        except (RedisError, ToolFailure) as error:
            raise ProcessProblem(
                f"the Redis at {redacted(target.redis_url)} cannot be read: {error}", "store_unreachable"
            ) from None
        except Denied:
            raise ProcessProblem(
                f"the fleet at {redacted(target.base_url)} lets in nobody without a bearer token (auth.mode is "
                "required), and the demo's many agents have none: run it on a fleet of its own, without that setting "
                "and with another --data-dir",
                "usage",
            ) from None
        except (FleetError, ValueError) as error:
            raise ProcessProblem(f"the fleet at {redacted(target.base_url)} does not take the work: {error}") from None


async def _run_in(
    project: str, options: Options, target: fleet.Target, client: redis.asyncio.Redis, say: Callable[[str], None]
) -> dict[str, Any]:
    began = time.monotonic()
    plan: dict[str, work.Planned] = {}
    edges = 0
    planner = Fleet(target.base_url, "", project, "fleet-demo", kind="orchestrator", patience=_ANSWER_SECONDS)
    async with planner as orchestrator:
        for given in options.source.trees(options.trees):
            known, tree = read(given), await orchestrator.plan(given)
            plan |= work.planned(known, tree.ids)
            edges += len(known.edges)
    say(
        f"{len(plan)} items and {edges} dependencies of {options.source.name} "
        f"are in project {project} at {redacted(target.base_url)} ({time.monotonic() - began:.1f} s)"
    )
    chaos = None
    if options.chaos_seconds is not None and target.data_dir is not None:
        chaos = fleet.Chaos(target.data_dir, options.chaos_seconds)
    say(f"{counted(options.agents, 'agent')} (seed {options.seed})")
    # What its agents report is counted.
    logging.getLogger("coordinator.client").setLevel(logging.CRITICAL)
    agents = Agents(target.base_url, project, options)
    board = Board(plan)
    failures = await _drain(board, options, boards.follow(client, project, _LOOK_MS), agents, chaos, say)
    say("auditing ...")
    differences = await audited(target, project, board, (len(plan), len(plan), edges))
    return report.facts(
        board,
        agents,
        differences,
        failures,
        source=options.source.name,
        notes=options.source.notes,
        trees=options.trees,
        items=len(plan),
        project=project,
        size=options.agents,
        seed=options.seed,
        kills=chaos.kills if chaos is not None else 0,
    )


async def audited(target: fleet.Target, project: str, board: Board, planned: tuple[int, int, int]) -> list[str]:
    """What was not done once, and where the stored items, their indexes and their counters do not agree; ``planned`` is
    how many items, items that are done and dependencies there have to be."""
    store = await open_store(target.redis_url, _STORE_MS)
    try:
        found = await audit(store, project)
    finally:
        await store.close()
    differences = [f"{title}: done more than once" for title in board.repeated]
    differences += [f"{difference.key}: {difference.problem}" for difference in found.differences] + found.unjudged
    stored = found.items, found.terminal, found.edges
    if stored != planned:
        text = "{} items, {} of them done, and {} dependencies are stored; by the plan there are {}, {} and {}"
        differences.append(text.format(*stored, *planned))
    return differences


async def _drain(
    board: Board,
    options: Options,
    followed: AsyncIterator[list[Event]],
    agents: Agents,
    chaos: fleet.Chaos | None,
    say: Callable[[str], None],
) -> list[str]:
    """Lets the agents work until everything is done; returns what kept them from it."""
    failures: list[str] = []
    limit = max(_STALL_SECONDS, 10.0 * options.ttl)
    killer: asyncio.Task[None] | None = None
    began = moved = told = time.monotonic()
    agents.start()
    try:
        async for events in followed:
            before = board.steps_done
            board.apply(events)
            now = time.monotonic()
            moved = now if board.steps_done != before else moved
            if now - told >= _LINE_SECONDS:
                told = now
                say(
                    f"{now - began:.1f} seconds, {board.steps_done}/{board.steps} done, {board.claimed} claimed, "
                    f"{len(agents.crashes)} agents crashed, {board.expiries} claims expired"
                    + (f", {chaos.kills} front-ends killed" if chaos is not None else "")
                )
            if board.items_done == len(board.plan) or agents.failures:
                break
            if killer is None and chaos is not None and board.claimed:
                # From the first claim on: killing a fleet that idles shows nothing.
                killer = asyncio.create_task(chaos.run())
            if now - moved > limit:
                failures.append(f"nothing was done for {limit:.0f} s")
                break
    finally:
        if killer is not None:
            killer.cancel()
        await agents.stop()
    # The rest: what agents did before they ended.
    async for events in followed:
        if not events:
            break
        board.apply(events)
    return failures + agents.failures


@asynccontextmanager
async def new_project(url: str, name: str | None) -> AsyncIterator[tuple[redis.asyncio.Redis, str]]:
    """A project that nobody has worked in, else ProcessProblem, with a client for it.

    One without a name is removed afterwards.
    """
    project = await _name(url, name)
    async with boards.connect(url, project) as client:
        if await client.exists(keys.events.key(project)):
            raise ProcessProblem(
                f"project {project} has been used already, and the audit counts all that is in it: choose a new name",
                "usage",
            )
        try:
            yield client, project
        finally:
            if name is None:
                await _remove(client, project)
                async with _opened(url) as store:
                    await withdraw(store, project)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url, _STORE_MS, timeout=0)
    try:
        yield store
    finally:
        await store.close()


async def _name(url: str, given: str | None) -> str:
    """The given name, or one that nobody else has; in a cluster that of a project on a shard that answers."""
    async with _opened(url) as store:
        if given is not None:
            return given
        up = {shard for shard, link in store.links.items() if link.connected}
        names = (f"demo-{uuid.uuid4().hex[:8]}" for _ in range(1000))
        return next(name for name in names if store.shard_of(name) in up)


async def _remove(client: redis.asyncio.Redis, project: str) -> None:
    project_keys = [key async for key in client.scan_iter(match=keys.project_prefix(project) + b"*", count=_BATCH)]
    for first in range(0, len(project_keys), _BATCH):
        await client.unlink(*project_keys[first : first + _BATCH])
