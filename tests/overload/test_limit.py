"""The adaptive limit: bounds, how fast it falls and recovers, and what does not affect it. Time is simulated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.overload import AdaptiveLimit
from coordinator.overload.limit import ENOUGH, FEWEST

LEAST, MOST, TARGET_MS = 8, 512, 50.0
STEP = 0.005


def run(limit: AdaptiveLimit, begin: float, seconds: float, answer_ms: float, wanted: int = 10_000) -> list[int]:
    """The limit from one answer to the next, while ``wanted`` callers each take what ``answer_ms`` says."""
    seen = []
    for n in range(round(seconds / STEP)):
        limit.sample(answer_ms / 1000, min(wanted, limit.value), begin + n * STEP)
        seen.append(limit.value)
    return seen


@settings(max_examples=60)
@given(
    st.sampled_from([(LEAST, MOST), (1, 8), (40, 40), (100, 600)]),
    st.lists(
        st.tuples(st.floats(0.05, 5000), st.floats(0.1, 3), st.integers(1, 2000), st.floats(0, 0.05), st.booleans()),
        max_size=12,
    ),
)
def test_it_never_leaves_its_bounds(
    bounds: tuple[int, int], phases: list[tuple[float, float, int, float, bool]]
) -> None:
    """However slow the store is, however long calls wait for the event loop, and whether or not some are shed."""
    limit, now = AdaptiveLimit(*bounds, TARGET_MS, 0.0), 0.0
    for answer_ms, seconds, wanted, lag, shedding in phases:
        for n in range(round(seconds / STEP)):
            limit.sample_lag(lag)
            limit.rejected += shedding
            limit.sample(answer_ms / 1000, min(wanted, limit.value), now + n * STEP)
            assert bounds[0] <= limit.value <= bounds[1]
        now += seconds


@settings(max_examples=40)
@given(before_ms=st.floats(0.1, 20), delay_ms=st.floats(100, 2000), slow_seconds=st.floats(1, 60))
def test_it_falls_within_a_second_and_is_back_within_ten(
    before_ms: float, delay_ms: float, slow_seconds: float
) -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 30, before_ms)
    healthy = limit.value
    assert healthy == MOST
    run(limit, 30.0, 1.0, before_ms + delay_ms)
    assert limit.value < healthy / 4
    run(limit, 31.0, slow_seconds, before_ms + delay_ms)
    run(limit, 31.0 + slow_seconds, 10.0, before_ms)
    assert limit.value >= 0.9 * healthy


@given(st.floats(0.05, TARGET_MS - 1))
@settings(max_examples=50)
def test_a_merely_busy_store_does_not_lower_the_limit(answer_ms: float) -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    seen = run(limit, 0.0, 20, answer_ms)
    assert seen == sorted(seen)
    assert seen[-1] == MOST


def test_an_unused_limit_does_not_grow() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    began = limit.value
    run(limit, 0.0, 20, 1.0, wanted=began // 4)
    assert limit.value == began


def test_one_slow_answer_among_many_changes_nothing() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 10, 1.0)
    before = limit.value
    limit.sample(0.4, limit.value, 10.0)
    run(limit, 10.005, 1, 1.0)
    assert limit.value == before


def test_a_store_with_constant_latency_becomes_usual() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 300, 80.0)
    assert limit.usual > 0.040
    assert limit.value == MOST


def test_the_first_response_times_count_as_usual_up_to_the_target() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    seen = run(limit, 0.0, 20, 1.5 * TARGET_MS)
    assert seen == sorted(seen)
    assert seen[-1] == MOST


def test_response_times_at_low_concurrency_become_usual() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 300, 90.0, wanted=10)
    assert limit.usual > 0.080


def test_a_permanently_slower_store_regains_its_limit() -> None:
    """At the lowest limit, calls do not slow each other down, however many more would come."""
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 10, 1.0)
    seen = run(limit, 10.0, 120, 1.2 * TARGET_MS)
    assert min(seen) == LEAST
    assert limit.value == MOST


def test_a_faster_store_lowers_the_usual_time() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    run(limit, 0.0, 300, 80.0)
    run(limit, 300.0, 3, 1.0)
    run(limit, 303.0, 1, 80.0)
    assert limit.value < MOST / 4


def test_a_busy_process_admits_fewer_calls_but_enough_to_stay_busy() -> None:
    limit, now = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0), 0.0
    run(limit, now, 30, 1.0)
    assert limit.value == MOST
    for n in range(1000):
        limit.sample_lag(0.008)
        limit.sample(0.08, limit.value, 30 + n * STEP)
    assert limit.value == ENOUGH, "time spent waiting in the process does not count for the store"
    run(limit, 40.0, 10, 1.0)
    assert limit.value == MOST


@pytest.mark.parametrize(("one_in", "most"), [(1, FEWEST), (5, FEWEST), (20, ENOUGH)])
def test_while_many_calls_are_shed_only_enough_are_admitted_to_stay_busy(one_in: int, most: int) -> None:
    limit, seen = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0), []
    for n in range(2000):
        limit.sample_lag(0.003)
        limit.rejected += n < 1000 and n % one_in == 0
        limit.sample(0.02, limit.value, n * STEP)
        seen.append(limit.value)
    assert seen[999] == most
    assert seen[-1] == ENOUGH, "without them, the admitted calls only wait longer for it, one by one"


@settings(max_examples=50)
@given(st.floats(0.012, 1.0))
def test_cpu_used_by_other_processes_does_not_lower_the_limit(lag: float) -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    for n in range(2000):
        limit.sample_lag(lag)
        limit.sample(3 * lag, limit.value, n * STEP)
    assert limit.value == MOST


def test_a_lasting_queue_does_not_become_usual() -> None:
    limit, now = AdaptiveLimit(LEAST, MOST, 10.0, 0.0), 0.0
    run(limit, 0.0, 10, 1.0)
    for n in range(40_000):  # more than three minutes of a store that slows down under load
        now = 10 + n * STEP
        limit.sample(limit.value * 0.0002, limit.value, now)
    assert limit.usual < 0.002
    assert limit.value * 0.2 < 20


def test_new_bounds_apply_at_once() -> None:
    limit = AdaptiveLimit(LEAST, MOST, TARGET_MS, 0.0)
    limit.configure(2, 20, TARGET_MS)
    assert limit.value == 20
    limit.configure(100, 200, TARGET_MS)
    assert limit.value == 100
