"""The proof: it finds nothing in honest histories, and whatever is wrong in corrupted ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from coordinator.demo.work import Crash, Planned
from tests.demo.histories import Run, play
from tests.support.history import Event, events_of
from tests.support.proof import QUEUE, TERMINAL, WORK, Rule, prove

seeds = st.integers(0, 2**32)


def played(seed: int, crash_rate: float = 0.2) -> Run:
    return play(random.Random(seed), crash_rate=crash_rate)


@settings(max_examples=25)
@given(seeds)
def test_nothing_is_found_in_an_honest_history(seed: int) -> None:
    run = played(seed)
    verdict = prove(run.plan, run.events, run.crashes)
    assert verdict.violations == ()
    facts = verdict.facts
    steps = [planned for planned in run.plan.values() if planned.step]
    assert facts.items_done == len(run.plan)
    assert facts.steps_done == len(steps)
    kinds = [one.kind for one in run.events]
    assert facts.claims == kinds.count("claim") >= len(steps)
    assert (facts.renewals, facts.releases) == (kinds.count("renew"), kinds.count("release"))
    assert facts.expiries == kinds.count("expire")
    assert facts.expiries + facts.takeovers >= len(run.crashes)


# --- corruptions ------------------------------------------------------------------------------
# Each takes an honest run and breaks one promise in it; None where the run has nothing to break.


def _first(run: Run, wanted: Callable[[Event], bool]) -> int | None:
    return next((number for number, one in enumerate(run.events) if wanted(one)), None)


def _is_step(run: Run, one: Event) -> bool:
    return one.kind == "transition" and run.plan[one.item].step


def lose_a_creation(run: Run) -> bool:
    del run.events[0]
    return True


def lose_a_dependency(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "link")
    if number is not None:
        del run.events[number]
    return number is not None


def relate_two_items(run: Run) -> bool:
    run.events.append(Event("9" * 13 + "-0", "link", run.events[0].item, other=run.events[1].item, code="R"))
    return True


def lose_the_end(run: Run) -> bool:
    del run.events[_first(run, lambda one: _is_step(run, one) and one.after == TERMINAL) :]
    return True


def delete_an_item(run: Run) -> bool:
    run.events.append(Event("9" * 13 + "-0", "delete", run.events[0].item))
    return True


def a_stranger(run: Run) -> bool:
    run.events.append(Event("9" * 13 + "-0", "create", "f" * 32, after=QUEUE))
    return True


def finish_twice(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    run.events.insert(number + 1, run.events[number])
    return True


def reopen(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    run.events.insert(number + 1, run.events[number]._replace(trigger="reopen", before=TERMINAL, after=QUEUE))
    return True


def finish_by_cancel(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    run.events[number] = run.events[number]._replace(trigger="cancel")
    return True


def skip_the_start(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == WORK)
    assert number is not None
    del run.events[number]
    return True


def finish_for_another(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    run.events[number] = run.events[number]._replace(agent="somebody")
    return True


def finish_without_a_claim(run: Run) -> bool:
    """The holder had released the item before."""
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    done = run.events[number]
    fence = max(one.fence for one in run.events[:number] if one.kind == "claim" and one.item == done.item)
    run.events.insert(number, done._replace(kind="release", fence=fence))
    return True


def take_a_live_claim(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "claim")
    assert number is not None
    claim = run.events[number]
    run.events.insert(number + 1, claim._replace(agent="thief", fence=claim.fence + 1))
    return True


def hold_two(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "claim")
    assert number is not None
    claim = run.events[number]
    other = next((item for item, planned in run.plan.items() if planned.step and item != claim.item), None)
    if other is None:
        return False
    run.events.insert(number + 1, claim._replace(item=other))
    return True


def repeat_a_fence(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "claim" and one.fence > 1)
    if number is None:
        return False
    run.events[number] = run.events[number]._replace(fence=1)
    return True


def release_an_older_claim(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "release")
    if number is None:
        return False
    run.events[number] = run.events[number]._replace(fence=run.events[number].fence + 1)
    return True


def renew_what_is_not_held(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "claim")
    assert number is not None
    run.events.insert(number + 1, run.events[number]._replace(kind="renew", agent="somebody"))
    return True


def release_what_is_not_held(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "claim")
    assert number is not None
    run.events.insert(number + 1, run.events[number]._replace(kind="release", agent="somebody"))
    return True


def expire_too_early(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "expire")
    if number is None:
        return False
    late = run.events[number]
    for position in range(number - 1, -1, -1):
        one = run.events[position]
        if one.item == late.item and one.kind in ("claim", "renew"):
            run.events[position] = one._replace(expires=late.at + 10_000)
            return True
    raise AssertionError("an expiry without a claim")


def begin_before_a_blocker_is_done(run: Run) -> bool:
    number = _first(run, lambda one: _is_step(run, one) and one.after == WORK and bool(run.plan[one.item].blockers))
    assert number is not None
    blocker = min(run.plan[run.events[number].item].blockers)
    done = _first(run, lambda one: one.item == blocker and one.after == TERMINAL and one.kind == "transition")
    assert done is not None
    run.events.insert(number, run.events.pop(done))
    return True


def finish_a_parent_early(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "transition" and one.trigger == "cascade" and one.after == TERMINAL)
    child = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    assert child is not None
    run.events.insert(child, run.events.pop(number))
    return True


def move_a_parent_by_hand(run: Run) -> bool:
    number = _first(run, lambda one: one.kind == "transition" and one.trigger == "cascade")
    assert number is not None
    run.events[number] = run.events[number]._replace(trigger="complete", agent="a0")
    return True


def release_by_a_dead_agent(run: Run) -> bool:
    """The expiry of a crashed agent's claim is made a release."""
    crashed = {(crash.agent, crash.item, crash.fence) for crash in run.crashes}
    number = _first(run, lambda one: one.kind == "expire" and (one.agent, one.item, one.fence) in crashed)
    if number is None:
        return False
    run.events[number] = run.events[number]._replace(kind="release")
    return True


def finish_by_a_dead_agent(run: Run) -> bool:
    """Whoever finished an item is said to have crashed over it."""
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    done = run.events[number]
    fence = max(one.fence for one in run.events[:number] if one.kind == "claim" and one.item == done.item)
    run.crashes.append(Crash(done.agent, done.item, fence))
    return True


def act_after_death(run: Run) -> bool:
    crash = next(iter(run.crashes), None)
    if crash is None:
        return False
    last = run.events[-1]
    claim = Event(f"{last.at}-{len(run.events)}", "claim", crash.item, crash.agent, 10_000, last.at + 10_000)
    run.events.append(claim)
    return True


def turn_back_the_clock(run: Run) -> bool:
    run.events[-1] = run.events[-1]._replace(id="1-1")
    return True


CORRUPTIONS: list[tuple[Rule, Callable[[Run], bool]]] = [
    ("complete", lose_a_creation),
    ("complete", lose_a_dependency),
    ("complete", relate_two_items),
    ("complete", delete_an_item),
    ("complete", a_stranger),
    ("order", turn_back_the_clock),
    ("order", skip_the_start),
    ("done once", lose_the_end),
    ("done once", finish_twice),
    ("done once", reopen),
    ("steps", finish_by_cancel),
    ("steps", reopen),
    ("holder", finish_for_another),
    ("holder", finish_without_a_claim),
    ("holder", move_a_parent_by_hand),
    ("one claim", take_a_live_claim),
    ("one claim", hold_two),
    ("one claim", renew_what_is_not_held),
    ("one claim", release_what_is_not_held),
    ("fences", repeat_a_fence),
    ("fences", release_an_older_claim),
    ("expiry", expire_too_early),
    ("dependencies", begin_before_a_blocker_is_done),
    ("dependencies", finish_a_parent_early),
    ("crashes", release_by_a_dead_agent),
    ("crashes", finish_by_a_dead_agent),
    ("crashes", act_after_death),
]


@pytest.mark.parametrize(("rule", "corrupt"), CORRUPTIONS, ids=lambda one: getattr(one, "__name__", one))
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])
@given(seed=seeds)
def test_a_corrupted_history_is_caught(rule: Rule, corrupt: Callable[[Run], bool], seed: int) -> None:
    run = played(seed, crash_rate=0.4)
    assume(corrupt(run))
    if corrupt is not turn_back_the_clock:
        renumber(run.events)
    assert rule in {violation.rule for violation in prove(run.plan, run.events, run.crashes).violations}


def renumber(events: list[Event]) -> None:
    """Gives events that were moved or made up stream ids that rise again."""
    now = 0
    for number, one in enumerate(events):
        now = max(now, one.at)
        events[number] = one._replace(id=f"{now}-{number}")


def test_every_rule_has_a_corruption_that_breaks_it() -> None:
    assert {rule for rule, _ in CORRUPTIONS} == set(get_args(Rule))


@settings(max_examples=20)
@given(seeds, st.data())
def test_every_missing_event_that_matters_is_noticed(seed: int, data: st.DataObject) -> None:
    run = played(seed)
    number = data.draw(st.integers(0, len(run.events) - 1))
    gone = run.events.pop(number)
    found = prove(run.plan, run.events, run.crashes).violations
    # What may be missing: a renewal, a release, an expiry or a claim that ended without a trace of it
    # being needed. Creations, dependencies and role changes never.
    if gone.kind in ("create", "link", "transition"):
        assert found


def test_a_late_completion_by_the_last_holder_is_counted_and_no_violation() -> None:
    run = played(7, crash_rate=0)
    number = _first(run, lambda one: _is_step(run, one) and one.after == TERMINAL)
    assert number is not None
    done = run.events[number]
    claimed = max(
        position
        for position, one in enumerate(run.events[:number])
        if one.item == done.item and one.kind in ("claim", "renew")
    )
    before = prove(run.plan, run.events).facts.late
    run.events[claimed] = run.events[claimed]._replace(expires=run.events[claimed].at)
    verdict = prove(run.plan, run.events)
    assert "holder" not in {violation.rule for violation in verdict.violations}
    assert verdict.facts.late > before


def test_fields_mean_what_the_kind_says() -> None:
    (moved,) = events_of("5-1", {"k": "transition", "i": "a", "g": "start", "f": "0", "t": "1", "a": "x"})
    assert (moved.before, moved.after, moved.trigger, moved.fence, moved.at) == (0, 1, "start", -1, 5)
    (claim,) = events_of("5-2", {"k": "claim", "i": "a", "a": "x", "f": "3", "x": "99"})
    assert (claim.fence, claim.expires, claim.before) == (3, 99, -1)
    (made,) = events_of("5-3", {"k": "create", "i": "a", "r": "0", "p": "b"})
    assert (made.after, made.other) == (0, "b")
    (link,) = events_of("5-4", {"k": "link", "i": "a", "o": "b", "c": "I"})
    assert (link.other, link.code) == ("b", "I")
    fields = {"k": "claim", "i": "a", "a": "x", "f": "3", "x": "99", "o": "b", "p": "2"}
    released, claimed = events_of("5-5", fields)
    assert released == Event("5-5", "release", "b", "x", 2)
    assert claimed == Event("5-5", "claim", "a", "x", 3, 99, part=1)


def test_an_implicit_release_comes_before_the_new_claim() -> None:
    plan = {name: Planned(name, True, None, frozenset()) for name in "ab"}
    created = [Event(f"1-{number}", "create", name, after=QUEUE) for number, name in enumerate("ab")]
    first = events_of("2-0", {"k": "claim", "i": "a", "a": "x", "f": "1", "x": "99"})
    second = events_of("3-0", {"k": "claim", "i": "b", "a": "x", "f": "1", "x": "99", "o": "a", "p": "1"})

    def broken(*events: Event) -> set[Rule]:
        violations = prove(plan, [*created, *first, *events]).violations
        return {found.rule for found in violations if found.rule != "done once"}

    assert broken(*second) == set()
    assert broken(*reversed(second)) >= {"order", "one claim"}
    assert broken(second[1]) == {"one claim"}
    assert broken(second[0]._replace(fence=2), second[1]) == {"fences"}
