"""The circuit breaker, with a simulated clock."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.overload import Breaker

OPEN_MS = 500


def made(jitter: float = 0.5) -> Breaker:
    return Breaker(OPEN_MS, 0.0, lambda: jitter)


def opened(now: float = 0.5, jitter: float = 0.5) -> Breaker:
    breaker = made(jitter)
    for _ in range(5):
        assert breaker.refuses(now) is None
        breaker.ended(False, now)
    assert breaker.state == "open"
    return breaker


def test_a_few_failures_among_many_answers_leave_it_closed() -> None:
    breaker = made()
    for n in range(1000):
        breaker.ended(n % 3 != 0, n / 100)
    assert breaker.state == "closed"


def test_failures_of_different_seconds_do_not_add_up() -> None:
    breaker = made()
    for n in range(100):
        breaker.ended(False, n * 1.1)
    assert breaker.state == "closed"


def test_it_opens_when_half_of_the_calls_of_a_second_fail() -> None:
    breaker = made()
    for n in range(6):
        assert breaker.state == "closed"
        breaker.ended(n % 2 == 0, 0.1)
    assert breaker.state == "open"
    breaker = opened()
    wait = breaker.refuses(0.6)
    assert wait is not None
    assert 0.3 < wait <= 0.5


def test_failures_after_it_opened_do_not_extend_the_pause() -> None:
    breaker = opened()
    for _ in range(20):
        breaker.ended(False, 0.6)
    wait = breaker.refuses(0.6)
    assert wait is not None
    assert wait <= 0.4


def test_it_admits_a_few_probes_and_closes_when_they_succeed() -> None:
    breaker = opened()
    assert [breaker.refuses(1.1) is None for _ in range(5)] == [True, True, True, False, False]
    for _ in range(3):
        assert str(breaker.state) == "half-open"
        breaker.ended(True, 1.2)
    assert str(breaker.state) == "closed"
    assert breaker.refuses(1.2) is None
    for _ in range(5):
        breaker.ended(False, 1.2)
    assert breaker.open_for(1.2) == OPEN_MS / 1000, "as long as at first"


def test_processes_do_not_probe_all_at_once() -> None:
    assert [opened(0.0, jitter).refuses(0.0) for jitter in (0.0, 0.5, 1.0)] == [0.375, 0.5, 0.625]


def test_a_probe_that_fails_opens_it_for_longer() -> None:
    breaker = opened()
    lasted = []
    now = 0.5
    for _ in range(6):
        wait = breaker.refuses(now)
        assert wait is not None
        lasted.append(round(wait, 3))
        now += wait
        assert breaker.refuses(now) is None
        breaker.ended(False, now)
    assert lasted == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def free_places(breaker: Breaker, now: float) -> int:
    """How many calls it lets through at once."""
    return [breaker.refuses(now) is None for _ in range(10)].count(True)


def test_earlier_probes_are_ignored_once_one_has_failed() -> None:
    breaker, now = opened(), 0.5

    def half_open() -> float:
        lasts = breaker.open_for(now)
        assert lasts is not None
        return now + lasts

    for answers in ((False,), (True, True, False)):
        now = half_open()
        assert free_places(breaker, now) == 3
        for ok in answers:
            breaker.ended(ok, now)
        assert breaker.state == "open"
    now = half_open()
    assert free_places(breaker, now) == 3
    breaker.ended(True, now)
    assert str(breaker.state) == "half-open"


def test_a_probe_with_two_store_calls_frees_one_place() -> None:
    breaker = opened()
    assert breaker.refuses(1.1) is None
    for _ in range(2):
        breaker.ended(True, 1.1)
    assert free_places(breaker, 1.1) == 3


def test_it_admits_probes_at_once_when_the_store_is_known_to_answer_again() -> None:
    breaker = opened()
    for now in (1.1, 2.2):
        assert breaker.refuses(now) is None
        breaker.ended(False, now)
    breaker.probe()
    assert breaker.shown(2.3) == "half-open"
    assert free_places(breaker, 2.3) == 3
    breaker.ended(False, 2.3)
    assert breaker.open_for(2.3) == 8 * OPEN_MS / 1000, "the longer pause of a store that has failed again"
    breaker.probe()
    assert free_places(breaker, 2.4) == 3
    for _ in range(3):
        breaker.ended(True, 2.4)
    breaker.probe()
    assert str(breaker.state) == "closed"


def test_probes_that_never_asked_the_store_do_not_keep_it_half_open() -> None:
    breaker = opened()
    for n in range(20):
        now = 1.1 + n * OPEN_MS / 990
        assert free_places(breaker, now) == 3, "all places are free again after a while"


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 2), st.booleans(), st.integers(0, 8)), max_size=60))
def test_it_always_closes_soon_after_the_store_recovers(
    history: list[tuple[float, bool, int]],
) -> None:
    breaker, now = made(), 0.0
    for pause, ok, calls in history:
        now += pause
        for _ in range(calls):
            if breaker.refuses(now) is None:
                breaker.ended(ok, now)
    end = now + 10
    while breaker.state != "closed":
        now += 0.05
        if breaker.refuses(now) is None:
            breaker.ended(True, now)
        assert now < end
