"""Attempts over several processes: real ones that are killed, and front-ends that put back what has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Json
from tests.items.moments import ms
from tests.items.parked import Front, Fronts
from tests.support.fleets import Http, RunningFleet
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
SOON = 60.0
LATE_MS = 1000
"""How soon a read shows what has ended by time."""
TIMES = 5
"""How often a time is taken on a busy machine; the quickest counts."""

pytestmark = pytest.mark.anyio


def settings(most: int, backoff: int) -> Settings:
    return Settings(request_deadline_ms=LONG_MS, attempts=Attempts(max=most, backoff_seconds=backoff))


@pytest.fixture
async def looking(fronts: Fronts, store: Store) -> AsyncIterator[list[Front]]:
    """Three front-ends that look for what has ended. The project is audited at the end."""
    made = [await fronts.make(settings=settings(1, 1)) for _ in range(3)]
    for front in made:
        await front.start()
    yield made
    assert (await audit(store, made[0].project)).differences == []


async def begin(front: Front, agent: str = "lost", **fields: Any) -> str:
    item = await front.add(**fields)
    await front.claim(agent, item, ttlSeconds=1)
    assert (await front.advance(item, "start", agent))["applied"]
    return item


async def quarantined(front: Front, item: str) -> Json:
    """The item as a read shows it once it is quarantined; nothing but reads happens meanwhile."""
    found: list[Json] = []

    async def shown() -> bool:
        found.append(await front.get(item))
        return bool(found[-1]["role"] == "blocked")

    await wait_until(shown, SOON, "the item to be quarantined")
    return found[-1]


def late_ms(item: Json) -> int:
    """How long after the end of its claim an item was quarantined."""
    return ms(item["roleChangedAt"]) - ms(item["attempts"]["last"][0]["until"])


async def test_reads_show_a_quarantine_within_a_second(looking: list[Front]) -> None:
    times = []
    for n in range(TIMES):
        item = await begin(looking[n % 3], f"agent {n}")
        times.append(late_ms(await quarantined(looking[(n + 1) % 3], item)))
    assert min(times) < LATE_MS, times


async def test_another_front_end_looks_after_the_claims_of_one_that_died(looking: list[Front]) -> None:
    """Also one that has never had a call of this project."""
    first, second, _ = looking
    due = keys.due_projects.key(keys.FLEET)

    async def noted() -> bool:
        return await second.store.command("ZSCORE", due, second.project) is not None

    item = await begin(first)
    await wait_until(noted, SOON, "the claim to be noted")
    await first.kill()
    assert late_ms(await quarantined(second, item)) < SOON * 1000


async def test_nobody_looks_at_a_project_in_which_nothing_ends(looking: list[Front]) -> None:
    item = await begin(looking[0])
    await quarantined(looking[1], item)

    async def forgotten() -> bool:
        return await looking[1].store.command("ZSCORE", keys.due_projects.key(keys.FLEET), looking[1].project) is None

    await wait_until(forgotten, SOON, "the project to be forgotten")


async def test_a_waiting_claim_wakes_when_the_back_off_is_over(fronts: Fronts) -> None:
    """Also on another front-end than that of the attempt."""
    one, other = [await fronts.make(settings=settings(50, 1)) for _ in range(2)]
    late = []
    for n in range(TIMES):
        item = await begin(one, f"agent {n}")
        await one.release(f"agent {n}", item, reason="failed")
        ends = ms((await one.get(item))["attempts"]["notBefore"])
        claim = await (await other.park(f"waits {n}")).claim()
        assert (claim["itemId"], claim["takeover"]) == (item, True)
        late.append(ms(claim["claimedAt"]) - ends)
    assert min(late) >= 0
    assert min(late) < 250, late


# --- real processes


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    told = {"FLEET_ATTEMPTS_MAX": "3", "FLEET_ATTEMPTS_BACKOFF_SECONDS": "1"}
    place = tmp_path_factory.mktemp("attempts") / "fleet"
    with RunningFleet(place, "--port", "0", "--workers", "0", "--frontends", "3", **told) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.mark.chaos
async def test_an_item_that_kills_every_agent_stops_after_its_last_attempt(fleet: RunningFleet) -> None:
    """Each agent is replaced when it dies. The other items are done, and one front-end dies, too."""
    with Http(fleet.port) as http:
        titles = ["poison", *(f"sound {n}" for n in range(5))]
        made = http.call("manage_items", operation="create", items=[{"title": title} for title in titles])
        ids = [item["id"] for item in made["items"]]
    deaths, said = 0, []
    while True:
        command = (sys.executable, "-m", "tests.items.poisoned", str(fleet.port), f"agent-{deaths}")
        agent = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await agent.communicate()
        said += output.decode().split("\n")[:-1]
        if agent.returncode == 0:
            break
        assert agent.returncode == -signal.SIGKILL
        deaths += 1
        if deaths == 2:
            pid = fleet.pid("fe-0")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
    assert (deaths, said.count("poison")) == (3, 3)
    assert sorted(set(said)) == sorted(titles)
    with Http(fleet.port) as http:
        items = [http.call("query_items", operation="get", id=item) for item in ids]
        context = http.call("get_context", itemId=ids[0])
    assert [item["role"] for item in items] == ["blocked", *["terminal"] * 5]
    assert items[0]["statusLabel"] == "quarantined"
    assert [one["claimedBy"] for one in context["attempts"]["last"]] == ["agent-2", "agent-1", "agent-0"]
