"""When and how often shed calls are retried. Time is simulated, except in one test."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.client.retries import Budget, Retryable, RetryPolicy, retry_after, retryable


def clock_at(now: list[float]) -> Budget:
    return Budget(lambda: now[0], per_second=2.0, per_call=0.5, most=10.0)


def test_retries_beyond_the_budget_wait() -> None:
    now = [100.0]
    budget = clock_at(now)
    assert [budget.retry() for _ in range(10)] == [0.0] * 10
    assert [budget.retry() for _ in range(3)] == [0.5, 1.0, 1.5]
    now[0] += 1.0
    assert budget.retry() == 1.0
    for _ in range(4):
        budget.call()
    assert budget.retry() == 0.5
    now[0] += 3600
    assert [budget.retry() for _ in range(11)] == [0.0] * 10 + [0.5], "saved up for a while only"


def test_a_retry_that_would_wait_too_long_gives_up_and_takes_nothing() -> None:
    budget = clock_at([0.0])
    assert [budget.retry() for _ in range(10)] == [0.0] * 10
    assert [budget.retry(within=0.4) for _ in range(5)] == [math.inf] * 5
    assert budget.retry(within=0.5) == 0.5


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=300),
    st.floats(0.01, 20),
    st.floats(0, 0.5),
    st.floats(1, 50),
)
def test_retries_never_exceed_what_calls_and_time_have_earned(
    story: list[tuple[float, bool]], per_second: float, per_call: float, most: float
) -> None:
    """At any moment, after any history, and also since any earlier moment."""
    now = [0.0]
    budget = Budget(lambda: now[0], per_second, per_call, most)
    calls: list[float] = []
    retries: list[float] = []
    for pause, is_retry in story:
        now[0] += pause
        if is_retry:
            retries.append(now[0] + budget.retry())
        else:
            calls.append(now[0])
            budget.call()
    retries.sort()
    for count, until in enumerate(retries, 1):
        earned = most + per_call * sum(at <= until for at in calls) + per_second * until
        assert count <= earned + 1e-6
    if retries:
        late = [at for at in retries if at >= retries[-1] / 2]
        earned = most + per_call * len(calls) + per_second * (retries[-1] - late[0])
        assert len(late) <= earned + 1 + 1e-6


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"error": {"kind": "shedding", "code": "over_capacity", "retryAfterMs": 250}}, ("over_capacity", 0.25)),
        ({"error": {"kind": "transient", "code": "conflict"}}, ("conflict", 0.0)),
        ({"error": {"kind": "shedding", "code": "x", "retryAfterMs": "soon"}}, ("x", 0.0)),
        ({"error": {"kind": "shedding", "code": "x", "retryAfterMs": -5}}, ("x", 0.0)),
        ({"error": {"kind": "permanent", "code": "not_found", "retryAfterMs": 250}}, None),
        ({"error": "busy"}, None),
        ({"fine": True}, None),
        (None, None),
        ([], None),
    ],
)
def test_only_retryable_failures_are_retried(content: Any, expected: tuple[str, float] | None) -> None:
    found = retryable(content)
    assert (found and (found.reason, found.after)) == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 120 ", 120.0),
        ("99999999999999", 86_400.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thursday, 01-Jan-70 00:01:40 GMT", 40.0),
        ("Thu Jan  1 00:01:40 1970", 40.0),
        ("Thu, 01 Jan 1970 00:00:40 GMT", 0.0),
        ("-3", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_retry_after_is_in_seconds_or_a_date(
    value: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "XYZ+5")
        time.tzset()
        found = retry_after(value, 60.0)
    time.tzset()
    assert found == seconds


async def _call(policy: RetryPolicy, failures: list[Retryable]) -> int:
    made = 0

    async def attempt() -> int:
        nonlocal made
        made += 1
        if failures:
            raise failures.pop(0)
        return made

    return int(await policy.retrying()(attempt))


def test_a_call_is_retried_after_the_named_delay() -> None:
    noted: list[str] = []
    policy = RetryPolicy(Budget(time.monotonic, 10.0), 30.0, lambda failure: noted.append(failure.reason))
    began = time.monotonic()
    assert asyncio.run(_call(policy, [Retryable("over_capacity", 0.2), Retryable("draining", 0.1)])) == 3
    assert time.monotonic() - began >= 0.3
    assert noted == ["over_capacity", "draining"]


def test_a_delay_beyond_the_policy_is_not_waited_for() -> None:
    policy = RetryPolicy(Budget(time.monotonic, 10.0), 5.0)
    began = time.monotonic()
    with pytest.raises(Retryable, match="already_claimed"):
        asyncio.run(_call(policy, [Retryable("already_claimed", 900.0)]))
    assert time.monotonic() - began < 60


def test_retries_of_all_calls_come_out_of_one_budget() -> None:
    now = [0.0]
    policy = RetryPolicy(Budget(lambda: now[0], per_second=0.001, per_call=0.5, most=3.0), 30.0)
    made = 0

    async def attempt() -> None:
        nonlocal made
        made += 1
        raise Retryable("over_capacity", 0.001)

    async def story() -> None:
        for _ in range(20):
            with pytest.raises(Retryable):
                await policy.retrying()(attempt)

    asyncio.run(story())
    # The first call finds the budget full, so what it would earn is lost.
    assert made == 20 + 3 + int(19 * 0.5)
