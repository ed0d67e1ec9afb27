"""Answers of workflow_get that would exceed the limit of hosts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from coordinator.steps.results import result_json
from coordinator.store import Store
from coordinator.toolsets.flows.contract.reads import StepRow
from coordinator.toolsets.flows.tools.reads import fitting_steps
from coordinator.toolsets.pages import ANSWER_CHARS
from tests.flows.client import Flows, gate

MOST_CHARS = 60_000


def row(number: int, result: Any = None, name: str = "step") -> StepRow:
    return StepRow(
        id=number,
        name=name,
        tool="tool",
        status="done",
        attempt=1,
        result_json=None if result is None else json.dumps(result),
        started_at=1,
        completed_at=2,
    )


def length(rows: list[StepRow]) -> int:
    return len(msgspec.json.encode(rows).decode())


def test_a_small_answer_is_unchanged() -> None:
    rows = [row(number, {"n": "x" * 100}) for number in range(50)]
    before = msgspec.json.encode(rows)
    assert msgspec.json.encode(fitting_steps(rows)) == before


def test_the_fewest_and_largest_results_are_cut() -> None:
    rows = [row(number, "x" * size) for number, size in enumerate((100, 20_000, 500, 40_000, 10_000))]
    held = fitting_steps(rows)
    assert [json.loads(one.result_json or "") != "x" * len(json.loads(one.result_json or "")) for one in held] == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert length(held) <= ANSWER_CHARS


def test_a_result_that_was_cut_is_not_cut_again() -> None:
    """Its beginning gets shorter, whatever it consists of, and its size stays the true one."""
    value = {"a": '"\\' * 1_500_000}
    recorded = result_json(value)
    steps = [row(1), row(2, "x" * 100)]
    steps[0].result_json = recorded
    held = fitting_steps(steps)
    whole = msgspec.json.encode(value).decode()
    cut = json.loads(held[0].result_json or "")
    assert cut == {"truncated": True, "bytes": len(whole), "beginning": whole[:200]}
    assert held[1].result_json == f'"{"x" * 100}"'
    # Nor does anything else that ends up with it.
    assert json.loads(result_json(json.loads(recorded), 10_000))["bytes"] == len(whole)
    # A result that only looks similar is one like any other.
    like = {"truncated": True, "bytes": 5, "beginning": "x" * 60_000, "more": 1}
    (alone,) = fitting_steps([row(1, like)])
    assert json.loads(alone.result_json or "")["bytes"] == len(json.dumps(like))


@pytest.mark.parametrize("text", ["x", '"', "\\", "\u0001", "\u00e9", "\U0001f600"])
def test_no_answer_is_too_large(text: str) -> None:
    rows = [row(number, text * 5_000, name=text * 200) for number in range(200)]
    ids: list[int] = []
    while rows:
        held = fitting_steps(list(rows))
        assert length(held) <= MOST_CHARS
        ids += [one.id for one in held]
        rows = rows[len(held) :]
    assert ids == list(range(200))


@pytest.mark.anyio
async def test_steps_are_paged_if_one_answer_cannot_hold_them(store: Store, project: str) -> None:
    tools = Flows(store, project)
    names = [f"{number:03}" + "\u00e9" * 190 for number in range(50)]
    flow: dict[str, Any] = {"start": {"name": "fork", "tool": None, "parallel": [str(number) for number in range(50)]}}
    for number, name in enumerate(names):
        flow[str(number)] = gate(name, join="end")
    flow["end"] = {"name": "end", "tool": None, "done": True}
    workflow = (await tools("workflow_create", name="w", flow=flow))["id"]
    found: list[Any] = []
    page = await tools("workflow_get", id=workflow)
    found += page["steps"]
    first = page["steps"][0]
    rest = await tools("workflow_get", id=workflow, after=first["id"])
    assert [step["id"] for step in rest["steps"]] == [step["id"] for step in found[1:]]
    (alone,) = (await tools("workflow_get", id=workflow, step=first["id"]))["steps"]
    assert alone == first
