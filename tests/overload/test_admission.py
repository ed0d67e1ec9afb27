"""Admission: which calls are admitted, wait, or are shed."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.overload import Ticket
from coordinator.overload.metrics import ADMISSION_QUEUE
from coordinator.toolsets.tool import Criticality
from tests.overload.front import SMALL, Front, breaker_state, code, shed_calls
from tests.support.counts import by_bucket
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

SHEDDABLE, NORMAL, READ, CRITICAL = Criticality


def test_each_class_has_room_for_its_share_and_critical_calls_for_more() -> None:
    front = Front()
    front.fill(SHEDDABLE, 4)
    assert front.enter(SHEDDABLE) is None
    front.fill(NORMAL, 2)
    assert front.enter(NORMAL) is None
    front.fill(READ, 1)
    assert front.enter(READ) is None
    front.fill(CRITICAL, 5)
    assert front.admission.in_flight == 12
    assert front.enter(CRITICAL) is None, "the hard limit"


async def test_waiting_calls_are_admitted_by_criticality_then_arrival() -> None:
    front = Front()
    held = front.fill(CRITICAL, 12)
    order = [SHEDDABLE, NORMAL, CRITICAL, NORMAL]
    waiting = []
    for each in order:
        assert front.enter(each) is None
        waiting.append(front.wait(each))
        await asyncio.sleep(0)
    assert front.admission.waiting == 4
    seen: list[int] = []
    for task in waiting:
        task.add_done_callback(lambda done: seen.append(waiting.index(done)))
    for ticket in held:
        front.admission.leave(ticket)
        await asyncio.sleep(0)
    tickets = await asyncio.gather(*waiting)
    await wait_until(lambda: len(seen) == 4)
    assert seen == [2, 1, 3, 0]
    waits = {each.label: sum(by_bucket(ADMISSION_QUEUE, each.label)) for each in (CRITICAL, NORMAL, SHEDDABLE)}
    assert waits == {"critical": 1, "normal": 2, "sheddable": 1}
    for ticket in tickets:
        front.admission.leave(ticket)
    assert (front.admission.in_flight, front.admission.waiting) == (0, 0)


async def test_only_more_critical_calls_overtake_waiting_ones() -> None:
    front = Front()
    front.fill(SHEDDABLE, 4)
    search = front.wait(SHEDDABLE)
    await asyncio.sleep(0)
    front.fill(NORMAL, 2)
    claim = front.wait(NORMAL)
    await asyncio.sleep(0)
    front.configure(least_limit=16, most_limit=16)
    assert front.enter(NORMAL) is None
    front.fill(READ, 1)
    for task in (search, claim):
        task.cancel()


async def test_a_full_queue_sheds_the_least_critical() -> None:
    front = Front()
    front.fill(CRITICAL, 12)
    waiting = [front.wait(each) for each in (SHEDDABLE, NORMAL, NORMAL, SHEDDABLE)]
    await asyncio.sleep(0)
    with pytest.raises(ToolFailure) as refused:
        await front.wait(SHEDDABLE)
    assert code(refused) == "over_capacity"
    urgent = front.wait(CRITICAL)
    with pytest.raises(ToolFailure) as displaced:
        await waiting[3]
    assert code(displaced) == "over_capacity"
    assert not any(task.done() for task in (*waiting[:3], urgent))
    assert shed_calls() == {("sheddable", "over_capacity"): 2}
    for task in (*waiting, urgent):
        task.cancel()
    await asyncio.gather(*waiting, urgent, return_exceptions=True)
    assert front.admission.waiting == 0


@pytest.mark.parametrize("criticality", Criticality)
async def test_after_a_call_found_the_queue_full_others_are_shed_at_once_unless_critical(
    criticality: Criticality,
) -> None:
    front = Front(queue_most=0)
    front.fill(CRITICAL, 12)
    with pytest.raises(ToolFailure) as refused:
        await front.wait(criticality)
    assert code(refused) == "over_capacity"
    assert (front.admission.turns_away(criticality) == 0) == (criticality is CRITICAL)


def test_fewer_calls_are_admitted_while_the_store_is_slow() -> None:
    front = Front(most_limit=64, hard_limit=64)
    for ticket in front.fill(SHEDDABLE, 32):
        front.admission.leave(ticket)
    for _ in range(10):
        front.now += 0.1
        front.admission.store_call(1.0, ok=True)
    front.fill(SHEDDABLE, 4)
    assert front.enter(SHEDDABLE) is None


@pytest.mark.parametrize("waited", [False, True])
async def test_fewer_calls_are_admitted_while_calls_wait_for_the_event_loop(waited: bool) -> None:
    front = Front(most_limit=400, hard_limit=400)
    late = front.enter(SHEDDABLE)
    assert late is not None
    if waited:
        held = front.fill(CRITICAL, 399)
        waiting = front.wait(SHEDDABLE)
        await asyncio.sleep(0)
        front.now += 1.0
        for ticket in held:
            front.admission.leave(ticket)
        front.now += 0.005
        front.admission.leave(await waiting)
    else:
        front.now += 0.005
        front.admission.begins(late)
    front.now += 0.1
    front.admission.store_call(0.001, ok=True)
    front.fill(SHEDDABLE, 31)
    assert front.enter(SHEDDABLE) is None


async def test_calls_wait_as_long_as_the_settings_say() -> None:
    front = Front(queue_ms=100)
    front.fill(CRITICAL, 12)
    began = asyncio.get_running_loop().time()
    await front.wait_in_vain(NORMAL)
    assert asyncio.get_running_loop().time() - began > 0.09
    assert front.admission.waiting == 0


async def test_a_cancelled_call_takes_no_capacity() -> None:
    front = Front()
    held = front.fill(CRITICAL, 12)
    given_up, other = front.wait(NORMAL), front.wait(NORMAL)
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    for ticket in held:
        front.admission.leave(ticket)
    front.admission.leave(await other)
    assert (front.admission.in_flight, front.admission.waiting) == (0, 0)


async def test_a_call_cancelled_as_it_is_admitted_gives_its_place_back() -> None:
    front = Front()
    held = front.fill(CRITICAL, 12)
    unlucky, lucky = front.wait(NORMAL), front.wait(NORMAL)
    await asyncio.sleep(0)
    for ticket in held[:7]:
        front.admission.leave(ticket)
    unlucky.cancel()
    await asyncio.gather(unlucky, return_exceptions=True)
    assert unlucky.cancelled()
    ticket = await lucky
    assert front.admission.in_flight == len(held[7:]) + 1
    for left in (*held[7:], ticket):
        front.admission.leave(left)
    assert front.admission.in_flight == 0


async def test_a_call_cancelled_just_before_another_ends_keeps_no_share() -> None:
    front = Front()
    held = front.fill(CRITICAL, 12)
    given_up = front.wait(NORMAL)
    await asyncio.sleep(0)
    given_up.cancel()
    for ticket in held:
        front.admission.leave(ticket)
    await asyncio.gather(given_up, return_exceptions=True)
    assert (front.admission.in_flight, front.admission.waiting) == (0, 0)
    assert len(front.admission.actors) == len(front.admission.projects) == 0


def test_an_agent_gets_at_most_its_share_while_others_call() -> None:
    front = Front(least_limit=20, most_limit=20, hard_limit=40)
    front.fill(NORMAL, 1)
    for _ in range(5):
        assert front.enter(NORMAL, "greedy") is not None
    assert front.enter(NORMAL, "greedy") is not None, "no call is limited yet"
    front.fill(NORMAL, 4)
    with pytest.raises(ToolFailure) as refused:
        front.enter(NORMAL, "greedy")
    assert code(refused) == "actor_quota"
    assert front.enter(NORMAL, "modest") is not None
    assert front.enter(CRITICAL, "greedy") is not None, "calls that finish work are never shed"


def test_a_project_gets_at_most_its_share_while_others_call() -> None:
    front = Front(least_limit=20, most_limit=20, hard_limit=40, project_share=0.5)
    for _ in range(9):
        assert front.enter(NORMAL, project="large") is not None
    front.fill(NORMAL, 1)
    assert front.enter(NORMAL, project="large") is not None
    with pytest.raises(ToolFailure) as refused:
        front.enter(NORMAL, project="large")
    assert code(refused) == "actor_quota"
    assert front.enter(NORMAL, project="small") is not None


def test_a_lone_agent_may_use_the_whole_limit() -> None:
    front = Front()
    somebody = front.admission.enter(NORMAL, "", "")
    assert somebody is not None
    front.admission.leave(somebody)
    for _ in range(6):
        assert front.enter(NORMAL, "only", "one") is not None


def test_parked_calls_take_no_capacity() -> None:
    front = Front()
    parked = [front.enter(NORMAL, parks=True) for _ in range(3)]
    assert front.admission.in_flight == 0
    with pytest.raises(ToolFailure) as refused:
        front.enter(NORMAL, parks=True)
    assert code(refused) == "over_capacity"
    assert parked[0] is not None
    front.admission.leave(parked[0])
    assert front.enter(NORMAL, parks=True) is not None


def test_parked_calls_do_not_enlarge_a_share_afterwards() -> None:
    front = Front(least_limit=20, most_limit=20, hard_limit=40)
    for _ in range(3):
        ticket = front.enter(NORMAL, "greedy", "one", parks=True)
        assert ticket is not None
        front.admission.leave(ticket)
    assert len(front.admission.actors) == len(front.admission.projects) == 0


def test_calls_to_a_failing_store_are_paused() -> None:
    front = Front()
    for _ in range(5):
        front.admission.store_call(0.5, ok=False)
    with pytest.raises(ToolFailure) as refused:
        front.enter(CRITICAL)
    assert code(refused) == "store_unavailable"
    assert refused.value.retry_after_ms == SMALL.breaker_open_ms, "not before it is asked again"
    front.now = 1.0
    assert front.enter(CRITICAL) is not None
    for _ in range(3):
        front.admission.store_call(0.001, ok=True)
    front.admission.report()
    assert breaker_state() == "closed"


def test_repeatedly_shed_callers_get_longer_retry_delays() -> None:
    front = Front(queue_most=0)
    held = front.fill(CRITICAL, 12)
    delays = []
    for _ in range(3000):
        with pytest.raises(ToolFailure) as refused:
            asyncio.run(front.admission.wait(NORMAL, "", ""))
        delays.append(refused.value.retry_after_ms or 0)
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (250, 5000)
    front.admission.leave(held.pop())
    front.fill(CRITICAL, 1)
    with pytest.raises(ToolFailure) as refused:
        asyncio.run(front.admission.wait(NORMAL, "", ""))
    assert refused.value.retry_after_ms == 250, "a call was admitted"


def test_new_settings_apply_to_the_next_call() -> None:
    front = Front()
    front.configure(least_limit=2, most_limit=2, hard_limit=2, breaker_open_ms=30_000)
    front.fill(CRITICAL, 2)
    assert front.enter(CRITICAL) is None
    assert front.admission.limit.value == 2
    for _ in range(5):
        front.admission.store_call(0.001, ok=False)
    with pytest.raises(ToolFailure) as refused:
        front.enter(CRITICAL)
    assert (code(refused), refused.value.retry_after_ms) == ("store_unavailable", 30_000)


async def test_after_a_queue_timeout_other_calls_do_not_wait() -> None:
    front = Front(queue_ms=20)
    front.fill(CRITICAL, 12)
    waiting = [front.wait(each) for each in (SHEDDABLE, NORMAL, SHEDDABLE, READ)]
    with pytest.raises(ToolFailure) as refused:
        await waiting[1]
    assert code(refused) == "queue_timeout"
    for task in (waiting[0], waiting[2]):
        with pytest.raises(ToolFailure):
            await task
    for each in (SHEDDABLE, NORMAL):
        with pytest.raises(ToolFailure) as refused:
            front.enter(each)
        assert code(refused) == "over_capacity"
        assert 0 < front.admission.turns_away(each) < 1000
    assert front.enter(CRITICAL) is None, "critical calls always wait"
    assert front.admission.turns_away(CRITICAL) == 0
    waiting[3].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize(("criticality", "ended"), [(NORMAL, {"sheddable", "normal"}), (CRITICAL, {"critical"})])
async def test_a_queue_timeout_ends_the_wait_of_lower_classes_unless_it_is_critical(
    criticality: Criticality, ended: set[str]
) -> None:
    front = Front(queue_ms=60_000)
    front.fill(CRITICAL, 12)
    waiting = [front.wait(each) for each in Criticality if each is not criticality]
    await asyncio.sleep(0)
    front.configure(queue_ms=20)
    await front.wait_in_vain(criticality)
    assert set(shed_calls()) == {(each, "queue_timeout") for each in ended}
    assert front.admission.turns_away(CRITICAL) == 0
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize(("seconds", "traced"), [(0, False), (15, False), (15, True)])
async def test_waits_are_short_after_a_recent_surplus(seconds: int, traced: bool) -> None:
    """From its end on, however long it lasted; traced calls always ``enter``."""
    front = Front(queue_ms=20)
    held = front.fill(CRITICAL, 12)
    await front.wait_in_vain(NORMAL)
    for _ in range(20 * seconds):
        front.now += 0.05
        if traced:
            with pytest.raises(ToolFailure):
                front.enter(NORMAL)
        else:
            assert front.admission.turns_away(NORMAL) > 0
    front.configure(queue_ms=60_000)
    urgent = front.wait(CRITICAL)
    began = asyncio.get_running_loop().time()
    await front.wait_in_vain(NORMAL)
    assert asyncio.get_running_loop().time() - began < 30
    assert not urgent.done()
    urgent.cancel()
    await asyncio.gather(urgent, return_exceptions=True)
    for ticket in held:
        front.admission.leave(ticket)


async def test_calls_wait_again_when_hardly_any_is_shed() -> None:
    front = Front(queue_ms=20)
    held = front.fill(CRITICAL, 12)
    with pytest.raises(ToolFailure):
        await front.wait(NORMAL)
    for ticket in held:
        front.admission.leave(ticket)
    for _ in range(3):
        front.now += 0.09
        for _ in range(20):
            (ticket,) = front.fill(NORMAL, 1)
            front.admission.leave(ticket)
    front.fill(CRITICAL, 12)
    assert front.admission.turns_away(NORMAL) == 0
    assert front.enter(NORMAL) is None, "a burst may wait again"


@pytest.mark.parametrize(("without_room", "lasts"), [(1, False), (3, True)])
async def test_a_surplus_lasts_while_more_than_two_of_a_hundred_calls_find_no_room(
    without_room: int, lasts: bool
) -> None:
    front = Front(queue_ms=20)
    held = front.fill(CRITICAL, 12)
    await front.wait_in_vain(NORMAL)
    for number in range(51 + without_room):
        front.now = 0.11 if number >= 50 else 0.0  # the first then confirms it, and only those after it count
        assert front.admission.turns_away(NORMAL) > 0
    for ticket in held:
        front.admission.leave(ticket)
    assert front.admission.turns_away(NORMAL) == 0
    for number in range(99):
        front.now = 0.12 if number < 98 else 0.22
        (ticket,) = front.fill(NORMAL, 1)
        front.admission.leave(ticket)
    front.fill(CRITICAL, 12)
    assert (front.admission.turns_away(NORMAL) > 0) is lasts


def test_waiting_works_on_the_event_loop_of_the_fleet() -> None:
    """Its timers differ from asyncio's own, especially those due at once."""

    async def story() -> None:
        front = Front(queue_ms=1)
        held = front.fill(CRITICAL, 12)
        await front.wait_in_vain(READ)
        for _ in range(3):
            waiting = [front.wait(each) for each in (CRITICAL, NORMAL, SHEDDABLE, READ)]
            await asyncio.sleep(0)
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [one.code if isinstance(one, ToolFailure) else one for one in ended] == ["queue_timeout"] * 4
            assert front.admission.waiting == 0
        for ticket in held:
            front.admission.leave(ticket)
        assert front.admission.in_flight == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(Criticality), st.floats(0, 0.2), st.booleans()), max_size=80))
def test_critical_calls_are_never_shed_below_the_hard_limit(
    calls: list[tuple[Criticality, float, bool]],
) -> None:
    front = Front(queue_most=0)
    inside: list[Ticket] = []
    for criticality, pause, leaves in calls:
        front.now += pause
        if leaves and inside:
            front.admission.leave(inside.pop())
        below = front.admission.in_flight < SMALL.hard_limit
        later = front.admission.turns_away(criticality)
        if criticality is CRITICAL:
            assert later == 0
            ticket = front.enter(CRITICAL)
            assert (ticket is not None) == below
            if ticket is not None:
                inside.append(ticket)
        elif not later:
            try:
                ticket = front.enter(criticality)
            except ToolFailure:
                ticket = None
            else:
                if ticket is None:
                    with pytest.raises(ToolFailure):
                        asyncio.run(front.admission.wait(criticality, "", ""))
            if ticket is not None:
                inside.append(ticket)


CALLS = st.lists(st.tuples(st.sampled_from(Criticality), st.integers(0, 3), st.integers(0, 3)), max_size=120)


@settings(max_examples=60)
@given(calls=CALLS)
def test_capacity_is_never_lost_nor_given_twice(calls: list[tuple[Criticality, int, int]]) -> None:
    """Calls arrive, wait, are cancelled and end in any order; at the end everything is free."""

    async def story() -> None:
        front = Front(queue_ms=10_000)
        inside: list[Ticket] = []
        waiting: list[asyncio.Task[Ticket]] = []
        for criticality, actor, what in calls:
            if what == 0 and inside:
                front.admission.leave(inside.pop())
            elif what == 1 and waiting:
                waiting.pop(0).cancel()
            else:
                try:
                    ticket = front.enter(criticality, f"a{actor}", f"p{actor}")
                except ToolFailure:
                    ticket = None
                else:
                    if ticket is None:
                        waiting.append(asyncio.ensure_future(front.admission.wait(criticality, f"a{actor}", "p")))
                if ticket is not None:
                    inside.append(ticket)
            await asyncio.sleep(0)
            for task in [task for task in waiting if task.done()]:
                waiting.remove(task)
                if not task.cancelled() and task.exception() is None:
                    inside.append(task.result())
            assert front.admission.in_flight <= SMALL.hard_limit
            assert front.admission.waiting <= SMALL.queue_most
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        inside += [result for result in ended if isinstance(result, Ticket)]
        for ticket in inside:
            front.admission.leave(ticket)
        await wait_until(lambda: front.admission.in_flight == 0)
        assert front.admission.waiting == 0
        assert len(front.admission.actors) == len(front.admission.projects) == 0

    asyncio.run(story())


@pytest.mark.parametrize("state", ["calm", "draining", "store away", "crowded", "surplus"])
@pytest.mark.parametrize("parks", [False, True])
@pytest.mark.parametrize("criticality", list(Criticality))
def test_refusal_before_entering_equals_refusal_at_entering(state: str, parks: bool, criticality: Criticality) -> None:
    front = Front()
    if state == "draining":
        front.admission.draining = True
    elif state == "store away":
        for _ in range(10):
            front.admission.breaker.ended(False, front.now)
    elif state == "crowded":
        for _ in range(3):
            front.enter(NORMAL, parks=True)
    elif state == "surplus":
        front.fill(CRITICAL, 8)
        for each in (SHEDDABLE, NORMAL, READ):
            front.admission.surplus[each].begin(front.now)
    refusal = front.admission.refusal(criticality, parks=parks)
    counted = shed_calls()
    if state == "draining":
        assert (refusal is None) is (criticality in (READ, CRITICAL) and not parks)
    if refusal is None:
        assert not counted
        assert front.enter(criticality, parks=parks) is not None
        return
    assert counted == {(criticality.label, refusal.code): 1}
    assert refusal.retry_after_ms
    with pytest.raises(ToolFailure) as failure:
        front.enter(criticality, parks=parks)
    assert (code(failure), failure.value.message) == (refusal.code, refusal.message)


def test_asking_for_a_refusal_uses_up_no_probe() -> None:
    front = Front()
    for _ in range(10):
        front.admission.breaker.ended(False, front.now)
    front.admission.report()
    assert breaker_state() == "open"
    front.now = 60.0
    for _ in range(20):
        assert front.admission.refusal(NORMAL) is None
    assert front.admission.breaker.state == "open", "no call was let through"
    front.admission.report()
    assert breaker_state() == "half-open", "the shown state says that one would be"
    assert front.enter(NORMAL) is not None
