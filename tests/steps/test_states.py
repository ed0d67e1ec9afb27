"""States of servers in the store, beside a model: who has which, under which number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.steps.handoff import own_queue
from coordinator.steps.states import ANY, FIRST, LOST, SAME, StateName, StateStore, Told, owner_of_caller
from coordinator.steps.store import GIVEN_BACK, RETRIED
from coordinator.steps.times import LEASE_MS
from coordinator.store import Store, keys
from tests.steps.rig import Rig, then
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

IDLE_MS = 900_000


class Table:
    """The states of one connection, whose name is the test's own."""

    def __init__(self, store: Store, project: str, most: int = 3) -> None:
        self.store = store
        self.project = project
        self.connection = f"c{uuid4().hex[:12]}"
        self.states = StateStore(store)
        self.most = most

    def name(self, owner: str) -> StateName:
        return StateName(self.connection, self.project, owner)

    async def acquire(self, owner: str, worker: str = "w1", have: int = 0) -> tuple[int, str]:
        return await self.states.acquire(self.name(owner), worker, have, self.most, IDLE_MS)

    async def tell(self, owner: str, number: int, what: Any, worker: str = "w1") -> bool:
        """Whether the worker still has the state afterwards."""
        told = [Told(self.name(owner), number, what, IDLE_MS)]
        return not await self.states.keep(worker, told)

    async def lapse(self, worker: str) -> None:
        await self.store.command("ZADD", keys.state_leases.key(keys.FLEET), "XX", 1, worker)

    async def age(self, owner: str, milliseconds: int) -> None:
        """Moves the time when a state was used last."""
        key = keys.state_uses.key(keys.FLEET, self.connection)
        await self.store.command("ZINCRBY", key, -milliseconds, self.name(owner).own)

    async def forget(self) -> None:
        leases = keys.state_leases.key(keys.FLEET)
        for key in (leases, *(one.key(keys.FLEET, self.connection) for one in (keys.state_owners, keys.state_uses))):
            await self.store.command("DEL", key)


@pytest.fixture
async def table(store: Store, project: str) -> AsyncIterator[Table]:
    table = Table(store, project)
    yield table
    await table.forget()


async def test_one_worker_has_a_state(table: Table) -> None:
    number, worker = await table.acquire("1")
    assert worker == "w1"
    assert await table.acquire("1", have=number) == (number, "w1")
    assert await table.acquire("1", "w2") == (0, "w1")
    again, _ = await table.acquire("1", have=0)
    assert again > number, "the worker has lost its session: the state is another one"
    assert not await table.tell("1", number, "used")
    assert await table.tell("1", again, "idle")


async def test_a_state_goes_with_the_lease_of_its_worker(table: Table) -> None:
    number, _ = await table.acquire("1")
    await table.lapse("w1")
    assert await table.acquire("1", have=number) == (number, "w1"), "nobody has taken it"
    await table.lapse("w1")
    taken, worker = await table.acquire("1", "w2")
    assert (worker, taken > number) == ("w2", True)
    assert await table.acquire("1", have=number) == (0, "w2")
    assert not await table.tell("1", number, "busy")


async def test_a_lease_is_renewed_with_any_of_its_states(table: Table) -> None:
    first, _ = await table.acquire("1")
    second, _ = await table.acquire("2")
    await table.lapse("w1")
    assert await table.tell("2", second, "idle")
    assert await table.acquire("1", "w2") == (0, "w1")
    assert await table.tell("1", first, "idle")
    assert await table.states.keep("w1", [], last=True) == []
    assert (await table.acquire("1", "w2"))[1] == "w2", "a worker that drains has none any more"


async def test_a_state_ends_when_it_is_idle(table: Table) -> None:
    number, _ = await table.acquire("1")
    await table.age("1", IDLE_MS + LEASE_MS)
    assert await table.tell("1", number, "busy"), "it was not idle"
    assert await table.tell("1", number, "used")
    await table.age("1", IDLE_MS)
    assert not await table.tell("1", number, "idle")
    assert (await table.acquire("1", have=number))[0] > number


async def test_the_one_idle_longest_makes_room(table: Table) -> None:
    numbers = {owner: (await table.acquire(owner))[0] for owner in "123"}
    assert await table.acquire("4") == (0, ""), "all are in use"
    for owner in "213":
        assert await table.tell(owner, numbers[owner], "used")
        await table.age(owner, 1000 if owner == "1" else 0)
    assert (await table.acquire("4"))[0]
    assert [await table.tell(owner, numbers[owner], "idle") for owner in "123"] == [False, True, True]
    await table.lapse("w1")
    assert (await table.acquire("5", "w2"))[1] == "w2", "those of a worker that is gone take no room"


async def test_numbers_rise_even_if_the_server_has_lost_its_last_writes(table: Table) -> None:
    key = keys.state_number.key(keys.FLEET)
    number, _ = await table.acquire("1")
    await table.store.command("SET", key, number - 10_000_000)
    await table.forget()

    async def later() -> bool:
        seconds, micros = await table.store.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 > number

    await wait_until(later, what="no server takes over within a millisecond")
    assert (await table.acquire("1", have=number))[0] > number
    ahead = number + 10_000_000_000
    await table.store.command("SET", key, ahead)
    assert (await table.acquire("2"))[0] == ahead + 1
    await table.store.command("DEL", key)


async def test_an_owner_is_told_once(table: Table) -> None:
    caller = owner_of_caller("ann é/{x}")
    for memory in (caller, "17"):
        use = [await table.states.use(table.name(ANY), memory, number, "s") for number in (5, 5, 6, 6, 7)]
        assert use == [FIRST, SAME, LOST, SAME, LOST]
        assert await table.states.use(table.name(ANY), memory, 8, "s", anew=True) == FIRST
        assert await table.states.use(table.name(ANY), memory, 8, "s") == SAME


async def test_a_step_that_has_not_heard_of_it_is_told_again(table: Table) -> None:
    memory = uuid4().hex
    for step, again, number, found in (
        ("s", False, 5, FIRST), ("s", True, 5, SAME), ("s", False, 6, LOST), ("s", True, 6, LOST),
        ("t", True, 6, SAME), ("s", True, 7, LOST), ("s", False, 7, SAME),
    ):  # fmt: skip
        assert await table.states.use(table.name(ANY), memory, number, step, again=again) == found
    await table.store.command("DEL", keys.state_seen.key(table.project, memory))


async def test_what_a_run_remembers_goes_with_it(table: Table) -> None:
    run = keys.run.key(table.project, "17")
    await table.store.command("HSET", run, "s", "r")
    assert not await table.states.over(table.name("17"), set())
    assert await table.states.use(table.name("17"), "17", 5, "s") == FIRST
    assert not await table.store.command("EXISTS", keys.state_seen.key(table.project, "17"))
    for ended in ("c", "e"):
        await table.store.command("HSET", run, "s", ended)
        assert await table.states.over(table.name("17"), set())
    await table.store.command("DEL", run)
    assert await table.states.over(table.name("17"), set())
    assert not await table.states.over(table.name(owner_of_caller("ann")), set())
    assert not await table.states.over(table.name(ANY), set())


async def test_a_step_that_is_for_one_worker_waits_for_it(rig: Rig) -> None:
    flow = await rig.create()
    (step,) = await rig.worker.take()
    own = own_queue("abc")
    assert (await rig.worker.report(step, GIVEN_BACK, own, "")).results == [1]
    assert await rig.queued() == []
    (job,) = await rig.queued(own)
    for key in (f"queue:{own}", f"bell:{own}", f"job:{job}"):
        assert await rig.store.command("TTL", f"fc:{{RQ}}:{key}") > 0, "nothing is left if the worker is gone"
    assert not await rig.store.command("SISMEMBER", "fc:{RQ}:queues", f"fc:{{RQ}}:queue:{own}")
    assert await rig.worker.take() == []
    owner = rig.player("w2")
    owner.steps.handoff.identify_worker("w2", [own, "fleet-steps"])
    (taken,) = await owner.take()
    assert (taken.attempt, taken.failures, taken.crashes) == (2, 0, 0)
    await owner.report(taken, RETRIED, 0, "")
    assert await rig.queued(own) == [], "the next attempt is for any worker"
    (again,) = await rig.worker.take()
    assert await rig.worker.done(again) == 1
    assert await rig.status(flow) == "completed"


async def test_a_step_that_one_worker_does_not_take_goes_back_to_its_pool(rig: Rig) -> None:
    flow = await rig.create(then("start", priority="high"))
    (step,) = await rig.worker.take()
    await rig.worker.report(step, GIVEN_BACK, own_queue("abc"), "")
    await rig.worker.steps.sweep("default")
    assert await rig.queued("fleet-steps.high") == []
    await rig.store.command("ZADD", keys.step_addressed.key("default"), "XX", 1, step.step)
    await rig.worker.steps.sweep("default")
    assert len(await rig.queued("fleet-steps.high")) == 1
    (again,) = await rig.worker.take()
    assert (again.attempt, again.failures, again.crashes) == (3, 0, 0)
    assert not await rig.store.command("EXISTS", keys.step_addressed.key("default"))
    assert await rig.worker.done(again) == 1
    assert await rig.status(flow) == "completed"


OWNERS, WORKERS = "1234", ("w1", "w2")
CALL = st.tuples(st.sampled_from(["call", "begin", "end", "die"]), st.sampled_from(OWNERS), st.sampled_from(WORKERS))
LAPSE = st.tuples(st.just("lapse"), st.just(""), st.sampled_from(WORKERS))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CALL | LAPSE, max_size=30))
async def test_no_owner_ever_uses_a_state_that_is_not_its_own(store: Store, project: str, acts: list[Any]) -> None:
    """Each worker keeps sessions as ``workers.states`` does. What each owner has done is compared with its session."""
    table, memory = Table(store, project, most=2), uuid4().hex
    sessions: dict[tuple[str, str], tuple[int, list[int]]] = {}
    """Number and calls of each session, by worker and owner."""
    busy: set[tuple[str, str]] = set()
    done: dict[str, list[int]] = {owner: [] for owner in OWNERS}
    for step, (what, owner, worker) in enumerate(acts):
        place = worker, owner
        if what == "lapse":
            await table.lapse(worker)
        elif what == "die":
            sessions.pop(place, None)
            busy.discard(place)
        elif what == "end":
            if place in busy:
                busy.discard(place)
                await table.tell(owner, sessions[place][0], "used", worker)
        else:
            have, calls = sessions.get(place, (0, []))
            number, holder = await table.acquire(owner, worker, have)
            if holder != worker:
                continue
            if number != have:
                calls = []
            sessions[place] = number, calls
            if await table.states.use(table.name(owner), memory + owner, number, str(step)) == LOST:
                done[owner] = []
            else:
                assert calls == done[owner], acts
                calls.append(step)
                done[owner] = [*calls]
            if what == "begin":
                busy.add(place)
            else:
                busy.discard(place)
                await table.tell(owner, number, "used", worker)
    await table.forget()
    await store.command("DEL", *(keys.state_seen.key(project, memory + owner) for owner in OWNERS))
