"""How the connections of a fleet go, by what its workers report."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.store.fleet.connection_states import RECENT_MS, ConnectionStatus, connection_states

NOW = 1_800_000_000_000
LONG_AGO = NOW - RECENT_MS - 1


def status(state: Any = "not tried", at: int = 0, reason: str = "", **more: Any) -> ConnectionStatus:
    return ConnectionStatus("c", "mcp", state, reason, at - 1 if at else 0, at, **more)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ([], ("not tried", "")),
        ([status(), status()], ("not tried", "")),
        ([status("ok", NOW), status()], ("ok", "w0")),
        ([status("ok", NOW - 9), status("ok", NOW)], ("ok", "w1")),
        ([status("failing", NOW), status()], ("failing", "w0")),
        ([status("failing", LONG_AGO), status()], ("failing", "w0")),
        # The other one may fail again at once: each call goes to some worker.
        ([status("failing", NOW - 9), status("ok", NOW)], ("failing", "w0")),
        ([status("failing", LONG_AGO), status("ok", NOW)], ("ok", "w1")),
        ([status("failing", LONG_AGO), status("ok", LONG_AGO - 1)], ("failing", "w0")),
        ([status("failing", NOW - 9), status("failing", NOW)], ("failing", "w1")),
    ],
)
def test_a_connection_fails_if_one_worker_may_fail_again(
    reported: list[ConnectionStatus], expected: tuple[str, str]
) -> None:
    workers = [(f"w{number}", one) for number, one in enumerate(reported)]
    (found,) = connection_states(workers, {"c": "mcp"}, NOW)
    assert (found.state, found.worker) == expected
    if found.worker:
        said = dict(workers)[found.worker]
        assert (found.kind, found.reason, found.since, found.at) == ("mcp", said.reason, said.since, said.at)


def test_connections_are_listed_by_name_whoever_knows_them() -> None:
    reported = [("w1", ConnectionStatus("b", "rest", unset=["X"])), ("w0", ConnectionStatus("b", "rest"))]
    found = connection_states(reported, {"c": "cli", "a": "mcp"}, NOW)
    assert [(one.name, one.kind, one.state, dict(one.unset)) for one in found] == [
        ("a", "mcp", "not tried", {}), ("b", "rest", "not tried", {"w1": ("X",)}), ("c", "cli", "not tried", {}),
    ]  # fmt: skip


def test_what_workers_lack_is_told_once_for_all_of_them() -> None:
    lacks = {"w1": ["A", "B"], "w0": ["A", "B"], "w2": ["B"], "w3": []}
    reported = [(worker, ConnectionStatus("c", unset=names)) for worker, names in lacks.items()]
    (found,) = connection_states(reported, {}, NOW)
    assert found.lacking == [
        "no environment variable A and no B in w0, w1",
        "no environment variable B in w2",
    ]


@given(st.lists(st.tuples(st.sampled_from(["not tried", "ok", "failing"]), st.integers(1, 2 * RECENT_MS)), max_size=5))
def test_the_order_of_reports_means_nothing(reported: list[tuple[Any, int]]) -> None:
    workers = [
        (f"w{n}", status(state, 0 if state == "not tried" else NOW - age)) for n, (state, age) in enumerate(reported)
    ]
    found = connection_states(workers, {"c": "mcp"}, NOW)
    random.Random(0).shuffle(workers)
    assert connection_states(workers, {"c": "mcp"}, NOW) == found
    recent = any(state == "failing" and age < RECENT_MS for state, age in reported)
    assert not recent or found[0].state == "failing"
