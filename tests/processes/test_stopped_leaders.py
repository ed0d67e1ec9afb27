"""Leaders that are stopped beyond their lease, in the middle of a round, and then resume.

Another process has taken over meanwhile. The old leader must not repeat any change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import eq, ne
from pathlib import Path

import pytest

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.idempotency import NO_KEY
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import PAGE, AuditStore
from tests.items.client import Client, fresh_id
from tests.steps.rig import Rig
from tests.support.fleets import RunningCommand, scrape
from tests.support.stopped import stopped
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

Start = Callable[..., RunningCommand]

ONE_CLAIM = 2**44 + 1_000
"""A hold of one second, as ``lua/claims/holds.lua`` counts it."""


@pytest.fixture
def start(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[Start]:
    """Starts a command of a fleet on the module's server."""
    running: list[RunningCommand] = []

    def begin(*arguments: str) -> RunningCommand:
        output, data = tmp_path / f"output-{len(running)}", tmp_path / "data"
        env = {"FLEET_REDIS_URL": own_server.url}
        running.append(RunningCommand(output, *arguments, "--data-dir", str(data), **env))
        return running[-1]

    yield begin
    for command in running:
        command.clean_up()


@asynccontextmanager
async def nobody_leads(store: Store, *tasks: str) -> AsyncIterator[None]:
    """Blocks these tasks, so that a long round accumulates."""
    leases = LeaderLeases(store)
    for task in tasks:
        assert await leases.acquire(task, "the test", 600_000)
    yield
    for task in tasks:
        await leases.release(task, "the test")


async def leader(store: Store, task: str) -> str:
    """The holder of the task's lease; '' for none."""
    return (await store.command("GET", keys.leader_lease.key(keys.FLEET, task)) or b"").decode()


async def lapse(store: Store, task: str) -> None:
    """Lets the task's lease expire."""
    await store.command("PEXPIRE", keys.leader_lease.key(keys.FLEET, task), 1)


async def left(store: Store, planted: Sequence[bytes]) -> int:
    """The number of planted keys that are not processed yet."""
    count: int = await store.command("EXISTS", *planted)
    return count


async def in_its_round(store: Store, planted: Sequence[bytes]) -> None:
    """Waits until the leader is in the middle of its round."""

    async def begun() -> bool:
        return 0 < await left(store, planted) < len(planted)

    await wait_until(begun, what="a round")


async def all_done(store: Store, planted: Sequence[bytes]) -> None:
    """Waits until all planted keys are processed."""

    async def none_left() -> bool:
        return not await left(store, planted)

    await wait_until(none_left, what="the rest to be done by another process")


async def led_by(store: Store, task: str, who: Callable[[str], bool]) -> str:
    """Waits until such a process holds the task's lease."""

    async def found() -> str:
        name = await leader(store, task)
        return name if name and who(name) else ""

    return await wait_until(found, what=f"another leader of {task!r}")


async def test_claims_are_counted_once_and_stale_figures_withdrawn(alone: Store, start: Start) -> None:
    tasks = ("measure items", "count steps")
    projects, client, rig = ProjectList(alone, "items"), Client(alone, "real"), Rig(alone, Settings())
    planted = [keys.holds.key(f"p{number}") for number in range(900)]
    async with nobody_leads(alone, *tasks):
        items, flows = [await client.add() for _ in range(3)], [await rig.create() for _ in range(3)]
        for number, key in enumerate(planted):
            await asyncio.gather(alone.command("HSET", key, "r1", ONE_CLAIM), projects.note(f"p{number}"))
        old = start("serve", "--port", "0", "--frontends", "1")
    await in_its_round(alone, planted)
    with stopped(old.process.pid):
        assert await left(alone, planted)
        names = {task: await leader(alone, task) for task in tasks}
        await client("manage_items", operation="delete", requestId=fresh_id(), ids=items[:1])
        await rig.flows.cancel("default", NO_KEY, flows[0], "test")
        new = start("serve", "--port", "0", "--frontends", "1")
        for task in tasks:
            await lapse(alone, task)
            names[task] = await led_by(alone, task, partial(ne, names[task]))
        await all_done(alone, planted)
    port = int(new.wait_ready().rsplit(":", 1)[1])

    def figures() -> tuple[float, float]:
        seen = scrape(port)
        return seen["coordinator_items{role=queue}"], seen["coordinator_steps_queued"]

    await wait_until(lambda: figures() == (2, 2), what="the old leader's figures to be withdrawn")
    assert scrape(port)["coordinator_claim_hold_seconds_count{end=released}"] == len(planted)
    assert {task: await leader(alone, task) for task in tasks} == names


async def test_lost_steps_get_one_more_attempt(alone: Store, start: Start) -> None:
    rig, projects = Rig(alone, Settings()), [f"p{number}" for number in range(500)]
    planted = [keys.step_leases.key(project) for project in projects]
    async with nobody_leads(alone, "sweep"):
        # In a pool without workers, so that the effect of the sweep stays visible.
        flows = [await rig.create(project=project, queue="elsewhere") for project in projects]
        for step in await rig.player("dead", pools=("elsewhere",)).take(len(projects)):
            await alone.command("ZADD", keys.step_leases.key(step.project), "XX", 1, step.step)
        assert await left(alone, planted) == len(projects)
        old = start("worker")
    await in_its_round(alone, planted)
    with stopped(old.process.pid):
        assert await left(alone, planted)
        new = start("worker")
        await all_done(alone, planted)
    # The old leader leads again after its old round.
    new.wait_ready()
    assert new.end() == 0
    await led_by(alone, "sweep", lambda name: f".{old.process.pid}." in name)
    for project, flow in zip(projects, flows, strict=True):
        assert [(one.status, one.attempt) for one in (await rig.flow(flow, project)).steps] == [("ready", 2)]


async def test_the_copied_audit_has_every_entry_and_whole_lines(alone: Store, start: Start, tmp_path: Path) -> None:
    file, config, audit = tmp_path / "audit.jsonl", tmp_path / "fleet.yaml", AuditStore(alone, Settings())
    config.write_text(json.dumps({"gateway": {"version": "1.0.0", "audit": {"sink": "file", "path": str(file)}}}))
    async with nobody_leads(alone, "audit"):
        for _ in range(18):
            await audit.write("default", [Event("x", "{}")] * PAGE)
        (last,) = await audit.newest("default", 1)
        old = start("worker", "--config", str(config))

    async def through() -> bool:
        return await audit.copied("default") >= last.position

    await wait_until(file.exists, what="the copy to begin")
    with stopped(old.process.pid):
        assert not await through()
        name = await leader(alone, "audit")
        new = start("worker", "--config", str(config))
        await lapse(alone, "audit")
        await wait_until(through, what="another worker to copy the rest")
    # As above.
    new.wait_ready()
    assert new.end() == 0
    await led_by(alone, "audit", partial(eq, name))
    copied = [json.loads(line)["id"] for line in file.read_bytes().splitlines()]
    entries = [entry.id for entry in await audit.read("default", count=100 * PAGE)]
    assert set(copied) >= set(entries)
    # The batch of the old leader may be there twice.
    assert len(copied) - len(set(copied)) <= PAGE
    assert await through()
