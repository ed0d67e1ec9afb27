"""Amounts as people write and read them. What options say of wrong ones: ``cli/test_items_command.py`` and others."""

from __future__ import annotations

import contextlib
import re
from fractions import Fraction
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.units import (
    DURATION_PATTERN,
    SECONDS,
    USAGE_PATTERN,
    budget,
    budget_text,
    clock,
    demands,
    demands_text,
    duration,
    milliseconds,
    money,
    recurrence,
    recurrence_text,
    size,
)

PARTS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 999_999), st.sampled_from("smhdw")), min_size=1)


@given(PARTS)
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, int, str]]) -> None:
    def written(whole: int, part: int, unit: str) -> str:
        return f"{whole}.{part:06}{unit}" if part else f"{whole}{unit}"

    text = "".join(starmap(written, parts))
    exact = sum((whole + Fraction(part, 10**6)) * SECONDS[unit] * 1_000 for whole, part, unit in parts)
    assert 0 <= milliseconds(text) - exact < 1
    assert re.match(DURATION_PATTERN, text)


@given(st.integers(0, 10**15))
def test_a_written_duration_is_read_as_the_same(ms: int) -> None:
    assert milliseconds(duration(ms)) == ms


def test_durations_have_their_largest_units() -> None:
    assert [duration(ms) for ms in (0, 1, 90_000, 129_600_000, 604_800_500)] == [
        "0s",
        "0.001s",
        "1m30s",
        "1d12h",
        "1w0.5s",
    ]
    assert [clock(ms) for ms in (0, 61_999, 360_000_000)] == ["0:00:00", "0:01:01", "100:00:00"]


@given(st.text("0123456789.smhdwx+- ", max_size=8))
def test_a_number_alone_is_a_duration_only_where_that_is_said(text: str) -> None:
    def read(alone: bool) -> int | None:
        with contextlib.suppress(ValueError):
            return milliseconds(text, alone=alone)
        return None

    bare = re.fullmatch(r"\d+(\.\d+)?", text.strip()) is not None
    assert (read(True) is not None) == (re.match(DURATION_PATTERN, text.strip()) is not None)
    assert read(False) == (None if bare else read(True))
    if bare:
        assert read(True) == milliseconds(f"{text.strip()}s")


@pytest.mark.parametrize(
    "text", ["", " ", "s", "1", "1.s", ".5s", "-1s", "1S", "1ms", "1 h", "1e3s", "\u0661s", "1234567890123s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time such as"):
        milliseconds(text)


def test_budgets_and_demands_are_read_as_they_are_written() -> None:
    @given(
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("costMicroUsd", "tokens", "wallMs"), st.integers(0, 10**12 - 1))
        )
    )
    def budgets(limits: dict[str, int]) -> None:
        if limits:
            assert budget(budget_text(limits)) == limits
            assert bool(re.match(USAGE_PATTERN, budget_text(limits))) == ("wallMs" not in limits)

    @given(st.lists(st.tuples(st.text("ab/.:@+-", min_size=1), st.none() | st.just("shared") | st.integers(2, 10**6))))
    def resources(rows: list[tuple[str, Any]]) -> None:
        more = {None: {}, "shared": {"mode": "shared"}}
        given_ = [{"key": key, **more.get(amount, {"units": amount})} for key, amount in rows]
        assert demands(demands_text(given_)) == given_

    budgets()
    resources()


def test_recurrences_are_read_as_they_are_written() -> None:
    for text in (
        "0 9 * * MON,FRI",
        "@daily; zone=Europe/Berlin",
        "@hourly; zone=Asia/Tokyo; missed=all; overlap=allow",
    ):
        assert recurrence_text(recurrence(text)) == text
    plain = {"cron": "@daily", "timeZone": "UTC", "missed": "one", "overlap": "skip", "nextAt": "2030-01-01T00:00:00Z"}
    assert recurrence_text(plain) == "@daily"
    for wrong in ("@daily; UTC", "@daily; zone=", "@daily; timeZone=UTC"):
        with pytest.raises(ValueError, match="must be zone=ZONE, missed="):
            recurrence(wrong)


def test_budgets_say_what_is_allowed() -> None:
    assert budget("cost=2.5, time=1d12h") == {"costMicroUsd": 2_500_000, "wallMs": 129_600_000}
    for wrong in ("", "cost", "cost=", "cost=$2", "tokens=1.5", "time=2", "hours=2", "cost=1,", "cost=1m"):
        with pytest.raises(ValueError, match="must be cost=DOLLARS, tokens=NUMBER or time=TIME"):
            budget(wrong)


@pytest.mark.parametrize(
    ("micro_usd", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (3_100, "$0.0031"),
        (9_999, "$0.009999"),
        (10_000, "$0.01"),
        (2_500_000, "$2.50"),
        (1_250_400_000, "$1,250.40"),
    ],
)
def test_money_shows_what_is_less_than_a_cent(micro_usd: int, shown: str) -> None:
    assert money(micro_usd) == shown


def test_sizes_have_four_digits() -> None:
    assert [size(n) for n in (0, 1023, 1024, 12_640, 2**40, 2**52)] == [
        "0 B", "1,023 B", "1 KiB", "12.34 KiB", "1 TiB", "4,096 TiB",
    ]  # fmt: skip
