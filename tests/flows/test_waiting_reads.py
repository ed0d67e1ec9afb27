"""workflow_get with waitMs: what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.feed import waits
from coordinator.store import Store
from tests.flows.client import Flows, Json, gate
from tests.support.parked import parked

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is ended by the read that comes after 10 s."""
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)


def wait(flows: Flows, flow: int, condition: str, ms: int = 50_000, **more: Any) -> Any:
    return flows("workflow_get", id=flow, waitFor=condition, waitMs=ms, **more)


async def test_the_end_and_changes(flows: Flows) -> None:
    flow = await flows.create()
    ended = await parked(flows.room, wait(flows, flow, "ended"))
    changed = await parked(flows.room, wait(flows, flow, "changed"))
    await flows.release(flow)
    assert (await changed)["waited"]["met"]
    await flows("workflow_cancel", id=flow)
    answer = await ended
    assert answer["status"] == "cancelled"
    assert answer["waited"]["met"]
    assert answer == {**await flows.get(flow), "waited": answer["waited"]}
    after = answer["waited"]["after"]
    assert not (await wait(flows, flow, "changed", 0, after=after))["waited"]["met"]


async def test_attention_is_that_of_the_caller(flows: Flows) -> None:
    flow = await flows.create({"start": {**gate("wait", done=True), "approver_role": "lead"}})
    lead = flows.as_("ann", "workflow", roles=("lead",))
    assert (await wait(lead, flow, "attention"))["waited"]["met"]
    other = flows.as_("bob", "workflow.admin", "workflow")
    waiting = await parked(other.room, wait(other, flow, "attention"))
    await flows("workflow_cancel", id=flow)
    assert (await waiting)["status"] == "cancelled"


async def test_a_workflow_that_may_not_be_read_is_unknown_at_once(flows: Flows) -> None:
    flow = await flows.as_("ann", "workflow").create()
    assert (
        await flows.as_("bob", "workflow").refusal("workflow_get", id=flow, waitFor="ended", waitMs=50_000)
    ).code == ("RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"waitMs": 1, "waitFor": "terminal"},
            "waitFor: 'terminal' is not allowed; allowed: ended, attention, changed",
        ),
        ({"waitMs": 1, "waitFor": "changed", "after": "x"}, "after: must be waited.after of an earlier answer"),
        ({"waitMs": 1, "waitFor": "changed", "after": "9" * 60}, "after: must be waited.after of an earlier answer"),
        ({"waitMs": 1, "waitFor": "changed", "after": "\u0663"}, "after: must be waited.after of an earlier answer"),
        ({"after": "v0123456789abcdef"}, "after: needs waitMs"),
    ],
)
async def test_bad_values_are_refused(flows: Flows, arguments: Json, told: str) -> None:
    assert (await flows.refusal("workflow_get", id=await flows.create(), **arguments)).message.startswith(told)


async def test_after_still_pages_through_steps(flows: Flows, store: Store) -> None:
    flow = await flows.create()
    step = (await flows.get(flow))["steps"][0]["id"]
    answer = await wait(flows, flow, "changed", 0, after=step)
    assert answer["steps"] == []
    assert not answer["waited"]["met"]
