"""Answers lost between store and caller: retries through another process."""

from __future__ import annotations

import pytest

from coordinator.errors import ToolFailure
from coordinator.toolsets.items.audit import audit
from tests.items.calls import Prepare, contents, events, events_of_one, every_call, keyed
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.dying import LosingClient

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("lose", [1, 2, 3])
@every_call
async def test_a_retried_call_has_one_effect_and_one_answer(
    tools: Client, elsewhere: Client, losing: LosingClient, prepare: Prepare, lose: int
) -> None:
    """For each of the call's scripts as the last one to run; a call with fewer scripts just succeeds."""
    prepared = await prepare(tools)
    tool, arguments = prepared[0], keyed(prepared, fresh_id())
    before = await events(tools)
    first = await (await losing(lose)).attempt_answer(tool, **arguments)
    answer = await tools.answer(tool, **arguments)
    if isinstance(first, ToolFailure):
        assert first.code == "store_unavailable"
    else:
        assert answer == first
    after = await contents(tools)
    assert await events(tools) - before == await events_of_one(elsewhere, prepare)
    assert await tools.answer(tool, **arguments) == answer
    assert await contents(tools) == after
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("lose", [1, 2, 3])
@pytest.mark.parametrize("operation", ["create", "update", "delete"])
async def test_a_call_in_slices_continues_after_another_process_died(
    tools: Client, losing: LosingClient, operation: str, lose: int
) -> None:
    ids = await tools.add_many(120)
    parts: dict[str, Json] = {
        "create": {"items": [{"title": str(n)} for n in range(120)], "parentId": ids[0][:8]},
        "update": {"items": [{"id": item, "title": "new"} for item in ids]},
        "delete": {"ids": [item[:8] for item in ids]},
    }
    arguments = {"operation": operation, **parts[operation], "actor": actor("agent"), "requestId": fresh_id()}
    assert "lost" in (await (await losing(lose)).refusal("manage_items", **arguments)).message
    answer = await tools("manage_items", **arguments)
    assert (answer[f"{operation}d"], answer["failed"]) == (120, 0)
    report = await audit(tools.store, tools.project)
    assert (report.items, report.differences) == ({"create": 240, "update": 120, "delete": 0}[operation], [])
