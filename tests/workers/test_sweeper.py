"""The sweeper: frequent and rare rounds, and failures of single projects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import workers.sweeper
from coordinator.errors import ToolFailure
from coordinator.steps.handoff import Handoff
from coordinator.steps.model import StepRun
from coordinator.steps.store import StepStore
from coordinator.steps.times import SWEEP_BATCH
from coordinator.store import Store, keys
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.errors import ServerError
from coordinator.store.projects.lists import ProjectList
from tests.support.wait import wait_until
from tests.workers.bench import Bench, chain
from workers.sweeper import Sweeper

pytestmark = pytest.mark.anyio


class _Nothing:
    """A kind of run without any runs."""

    async def tidy(self, project: str) -> bool:
        return True


class Watched:
    """A bench with a sweeper that the test drives."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.outboxes: list[str] = []
        self.tidied: list[str] = []
        self.left = 0
        self.meanwhile: dict[str, Callable[[str], Awaitable[None]]] = {}
        """Called while a project is cleaned up."""
        self.sweeper = Sweeper(
            "w1", bench.steps, [self, _Nothing()], bench.engine.held_in, bench.engine.lost_reply, self.outboxes.append
        )

    async def tidy(self, project: str) -> bool:
        """As a kind of run."""
        self.tidied.append(project)
        if project in self.meanwhile:
            await self.meanwhile[project](project)
        return self.left == 0

    async def expire(self, step: int) -> None:
        await self.bench.store.command("ZADD", keys.step_leases.key("default"), "XX", 1, step)


@pytest.fixture
async def watched(server: EmbeddedServer, connection: object) -> AsyncIterator[Watched]:
    store = Store(server.url, timeout_ms=5000)
    await store.open()
    yield Watched(Bench(store))
    await store.close()


async def test_a_round_gives_lost_steps_another_attempt(watched: Watched) -> None:
    bench = watched.bench
    flow = await bench.create(chain({}))
    await bench.steps.take(1)
    await watched.expire(flow + 1)
    await watched.sweeper.round()
    (step,) = (await bench.flow(flow)).steps
    assert (step.status, step.attempt) == ("ready", 2)


async def test_a_round_leaves_no_lost_step_for_the_next_one(watched: Watched) -> None:
    bench = watched.bench
    for _ in range(SWEEP_BATCH + 1):
        await bench.create(chain({}))
    taken = (await bench.steps.take(SWEEP_BATCH + 1)).steps
    for step in taken:
        await watched.expire(int(step.step))
    await watched.sweeper.round()
    again = (await bench.steps.take(SWEEP_BATCH + 1)).steps
    assert [step.attempt for step in again] == [2] * len(taken)


async def test_a_clock_set_forward_delays_no_step(watched: Watched) -> None:
    bench = watched.bench
    await bench.steps.projects.note("default")
    await watched.sweeper.round()
    flow = await bench.create(chain({}))
    # An hour forward: recent notes look old, and are not renewed for a while.
    await bench.store.command("ZINCRBY", keys.step_projects.key(keys.FLEET), -3600, "default")
    for attempt, slow_at in ((2, inf), (3, 0.0), (4, inf)):
        watched.sweeper.slow_at = slow_at
        await bench.steps.take(1)
        await watched.expire(flow + 1)
        await watched.sweeper.round()
        (step,) = (await bench.flow(flow)).steps
        assert (step.status, step.attempt) == ("ready", attempt)


async def test_a_vanished_job_is_restored(watched: Watched) -> None:
    bench = watched.bench
    flow = await bench.create(chain({}))
    await bench.store.command("DEL", "fc:{RQ}:queue:fleet-steps")
    await bench.store.command("ZADD", keys.step_queue.key("default"), "XX", 1, flow + 1)
    await watched.sweeper.round()
    assert [step.run for step in (await bench.steps.take(1)).steps] == [str(flow)]


async def test_a_round_wakes_the_relay_for_jobs_in_the_outbox(watched: Watched) -> None:
    await watched.bench.steps.projects.note("default")
    await watched.bench.store.command("RPUSH", keys.outbox.key("default"), "fleet-steps 1-2-1")
    await watched.sweeper.round()
    assert watched.outboxes == ["default"]


async def test_after_a_lost_reply_steps_are_given_back_before_their_lease_ends(
    watched: Watched,
) -> None:
    bench, lost = watched.bench, [True]
    await bench.create(chain({}))
    # The reply with this step was the one that was lost.
    await bench.steps.take(1)
    sweeper = Sweeper(
        "w1", bench.steps, [], lambda project: [], lambda: bool(lost and lost.pop()), watched.outboxes.append
    )
    running = asyncio.create_task(sweeper.run())
    try:
        (step,) = await wait_until(lambda: _taken(bench), what="the step to come again")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (step.attempt, step.crashes) == (2, 0)


async def _taken(bench: Bench) -> list[StepRun]:
    return (await bench.steps.take(1)).steps


async def test_old_runs_are_forgotten_in_a_full_store_too(watched: Watched) -> None:
    bench = watched.bench
    await bench.create(chain({}))
    await bench.store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        assert await bench.steps.acquire_sweep("w1", 1)
        with pytest.raises(ToolFailure) as refused:
            await watched.sweeper.round()
        assert refused.value.code == "store_full"
        await wait_until(lambda: watched.tidied, what="the kind to be asked")
    finally:
        await bench.store.command("CONFIG", "SET", "maxmemory", 0)
    await watched.sweeper.round()


async def test_a_lasting_failure_is_logged_once(watched: Watched) -> None:
    await watched.bench.create(chain({}))
    await watched.bench.store.command("CONFIG", "SET", "maxmemory", 1)
    with capture_logs() as logged:
        running = asyncio.create_task(watched.sweeper.run())
        tried = watched.bench.steps.acquire_sweep
        rounds = 0

        async def counted(process: str, milliseconds: int) -> bool:
            nonlocal rounds
            rounds += 1
            return await tried(process, milliseconds)

        watched.bench.steps.acquire_sweep = counted  # type: ignore[method-assign]
        try:
            await wait_until(lambda: rounds >= 3, what="three rounds")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await watched.bench.store.command("CONFIG", "SET", "maxmemory", 0)
    warnings = [line for line in logged if line["event"] == "nothing can be swept, trying again"]
    assert len(warnings) == 1
    assert "out of memory" in warnings[0]["reason"]


async def test_a_failure_in_one_project_affects_no_other(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = watched.bench
    flow = await bench.create(chain({}))
    await bench.steps.projects.note("aaa")
    await bench.steps.take(1)
    await watched.expire(flow + 1)
    sweep = bench.steps.sweep

    async def broken(project: str) -> Any:
        if project == "aaa":
            raise ServerError("ERR a defect")
        return await sweep(project)

    monkeypatch.setattr(bench.steps, "sweep", broken)
    await watched.sweeper.round()
    assert (await bench.flow(flow)).steps[0].attempt == 2


async def test_projects_are_cleaned_up_rarely_and_dropped_when_empty(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = watched.bench
    await bench.create(chain({}))
    await bench.steps.projects.note("idle")
    for project in ("default", "idle"):
        await bench.store.command("ZADD", keys.step_projects.key(keys.FLEET), 1, project)
    watched.left = 1
    await watched.sweeper.round()
    await wait_until(lambda: sorted(watched.tidied) == ["default", "idle"])
    for _ in range(2):
        await watched.sweeper.round()
    assert len(watched.tidied) == 2
    assert sorted(await bench.steps.projects.ages()) == ["default", "idle"]
    watched.left = 0
    monkeypatch.setattr(workers.sweeper, "SLOW_SECONDS", 0.0)
    watched.sweeper.slow_at = 0.0
    await watched.sweeper.round()

    async def dropped() -> bool:
        # The other one has a step that waits, so it was noted again.
        return [*await bench.steps.projects.ages()] == ["default"]

    await wait_until(dropped)
    assert [*await bench.steps.projects.ages(60)] == ["default"]


async def test_a_project_in_which_a_flow_begins_during_cleanup_stays(watched: Watched) -> None:
    projects, begin = watched.bench.steps.projects, ProjectList(watched.bench.store, "steps")
    # The project noted last is cleaned up first: the busy one is decided before the idle one is dropped.
    for age, project in ((1, "idle"), (2, "busy")):
        await projects.note(project)
        await watched.bench.store.command("ZADD", keys.step_projects.key(keys.FLEET), age, project)
    watched.meanwhile = {"busy": begin.note}
    await watched.sweeper.round()
    await wait_until(lambda: _only(projects, "busy"), what="the other one to be dropped")


async def _only(projects: ProjectList, project: str) -> bool:
    return [*await projects.ages()] == [project]


async def test_a_failed_cleanup_of_a_project_affects_no_other(watched: Watched) -> None:
    async def broken(project: str) -> None:
        raise ToolFailure("store_unavailable", "gone")

    projects = watched.bench.steps.projects
    for age, project in ((1, "idle"), (2, "broken")):
        await projects.note(project)
        await watched.bench.store.command("ZADD", keys.step_projects.key(keys.FLEET), age, project)
    watched.meanwhile = {"broken": broken}
    await watched.sweeper.round()
    await wait_until(lambda: _only(projects, "broken"), what="the other one to be dropped")


async def test_idle_projects_are_not_swept_each_round(watched: Watched) -> None:
    bench = watched.bench
    await bench.steps.projects.note("idle")
    await bench.store.command("ZADD", keys.step_projects.key(keys.FLEET), 1, "idle")
    watched.left = 1
    await watched.sweeper.round()
    await wait_until(lambda: watched.tidied == ["idle"])
    await bench.store.command("CONFIG", "RESETSTAT")
    await watched.sweeper.round()
    stats = (await bench.store.command("INFO", "commandstats")).decode()
    (line,) = [line for line in stats.splitlines() if line.startswith("cmdstat_fcall:")]
    assert "calls=1," in line, "only the list of projects is read"


async def test_leases_are_renewed_before_a_shard_that_was_away_is_swept(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose lease ended during a failover would lose its step, and the step would count a crash."""
    with EmbeddedCluster(tmp_path / "shards", 1, fsync="everysec") as cluster:
        store = Store(cluster.url, timeout_ms=5000)
        await store.open()
        try:
            swept: list[str] = []
            store.observe = lambda script, seconds, outcome, project: swept.append(f"{script} {project}")
            handoff = Handoff.of(bench.settings, store)
            handoff.identify_worker("w1", [])
            steps = StepStore(store, handoff)
            await steps.projects.note("default")
            sweeper = Sweeper("w1", steps, [_Nothing()], lambda project: [], lambda: False, lambda project: None)
            await sweeper.round()
            assert swept.count("sweep_steps default") == 1
            store.link("default").recycle("was disconnected by the test")
            await wait_until(lambda: store.link("default").connects == 2 and store.connected, what="the shard")
            await sweeper.round()
            assert swept.count("sweep_steps default") == 1
            monkeypatch.setattr(workers.sweeper, "BACK_SECONDS", 0.0)
            await sweeper.round()
            assert swept.count("sweep_steps default") == 2
        finally:
            await store.close()
