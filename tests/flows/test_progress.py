"""What people see of workflows: which of them, how far they are, and what has happened."""

from __future__ import annotations

import pytest

from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.store.progress import list_visible, read_events, read_progress
from tests.flows.client import ONE_GATE, Flows, gate

pytestmark = pytest.mark.anyio


def caller(id: str, *permissions: str, roles: tuple[str, ...] = ()) -> Caller:
    return Caller(id, "user", frozenset(roles), frozenset(permissions))


async def test_callers_see_their_own_and_those_that_they_may_approve(flows: Flows, store: Store, project: str) -> None:
    own = await flows.as_("ada", "workflow")("workflow_create", name="own", flow=ONE_GATE)
    led = {"start": gate("wait", done=True, approver_role="lead")}
    other = await flows.as_("bob", "workflow")("workflow_create", name="other", flow=led)
    ada = caller("ada", "workflow.read")
    assert [row.id for row in (await list_visible(store, project, ada)).rows] == [own["id"]]
    assert (await list_visible(store, project, ada, creator="bob")).rows == []
    everything = await list_visible(store, project, None)
    assert ([row.id for row in everything.rows], everything.total) == ([other["id"], own["id"]], 2)
    assert (await list_visible(store, project, None, creator="bob")).total == 1
    assert (await list_visible(store, project, None, creator="bob", status="running")).total is None
    assert await read_progress(store, project, ada, other["id"]) is None
    lead = caller("ada", "workflow.read", roles=("lead",))
    assert await read_progress(store, project, lead, other["id"]) is not None
    assert await read_progress(store, project, None, 1) is None


async def test_pages_lead_from_one_to_the_next(flows: Flows, store: Store, project: str) -> None:
    made = [(await flows("workflow_create", name=f"f{n}", flow=ONE_GATE))["id"] for n in range(3)]
    first = await list_visible(store, project, None, limit=2)
    assert ([row.id for row in first.rows], first.total) == (made[:0:-1], 3)
    second = await list_visible(store, project, None, limit=2, before=first.before)
    assert ([row.id for row in second.rows], second.before) == (made[:1], 0)


async def test_events_are_those_of_the_workflow_the_newest_first(flows: Flows, store: Store, project: str) -> None:
    created = await flows("workflow_create", name="a", flow=ONE_GATE)
    other = await flows("workflow_create", name="b", flow=ONE_GATE)
    await flows("workflow_cancel", id=created["id"], actor={"id": "ada", "kind": "user"})
    found = await read_progress(store, project, None, created["id"])
    assert found is not None
    assert found.steps["start"].status == "cancelled"
    events, complete = await read_events(store, project, found)
    assert [(event.kind, event.step, event.actor) for event in events] == [
        ("flow_cancelled", "", "ada"),
        ("step_gate", "start", ""),
        ("flow_created", "", ""),
    ]
    assert complete
    assert other["id"] > created["id"]
