"""What people change: permissions, kinds, rates, and calls that are repeated; without a browser."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.console.acts.large import MANY
from coordinator.console.acts.operate import OPERATIONS
from coordinator.console.acts.rate import PER_SECOND, Rate
from coordinator.console.metrics import ACTIONS
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure
from coordinator.identity.callers.permissions import OPERATE
from coordinator.operations import ActRecord, AuditLog, drains
from coordinator.operations.calls import CALLS
from coordinator.settings import Settings
from coordinator.store import Script, Store
from coordinator.store.fleet.drains import Drains, process_scope
from coordinator.toolsets.flows.store.progress import read_events, read_progress
from coordinator.toolsets.items.store.history import read_history
from tests.console.site import Json, Site, person
from tests.flows.client import Flows
from tests.items.client import Client, actor, fresh_id
from tests.support.counts import counted

pytestmark = pytest.mark.anyio


async def records(store: Store, project: str = "") -> list[ActRecord]:
    """The log, the last record first."""
    return (await AuditLog(store).last(100, project))[::-1]


@pytest.fixture
def site(store: Store, project: str) -> Site:
    return Site(store, project)


async def test_a_person_is_the_actor_of_what_they_change_verified_by_their_sign_in(site: Site) -> None:
    item = await site.create()
    done = (await site.advance(item, "start"))["result"]["results"][0]
    assert done["actor"] == {"id": "ada", "kind": "user"}
    assert (done["verification"]["status"], done["verification"]["verifier"]) == ("verified", "bearer")


async def test_nobody_can_name_another_actor(site: Site) -> None:
    item = await site.create()
    change = {"itemId": item, "trigger": "start", "actor": {"id": "bob", "kind": "user"}}
    told = await site("call/items/advance_item", {"transitions": [change]})
    assert "actor" in told["problem"]


@pytest.mark.parametrize("path", [f"call/{toolset}/{tool}" for toolset, tools in CALLS.items() for tool in tools])
@pytest.mark.parametrize(
    "viewer",
    [
        Viewer(),
        person("agent", kind="subagent"),
        person("agent", kind="external"),
        person("ada", "*.read", OPERATE),
        person("ada", "navigator", OPERATE),
    ],
    ids=["anonymous", "subagent", "external", "read only", "of another toolset"],
)
async def test_only_people_with_the_permission_of_the_toolset_call_its_tools(
    site: Site, path: str, viewer: Viewer
) -> None:
    with pytest.raises(ToolFailure) as refused:
        await site(path, {}, viewer)
    assert refused.value.code == "permission_denied"


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    "viewer",
    [Viewer(), person("ada", "*"), person("agent", "*", OPERATE, kind="subagent")],
    ids=["anonymous", "without operate", "subagent"],
)
async def test_only_people_with_the_permission_to_operate_do_what_operators_do(
    site: Site, name: str, viewer: Viewer
) -> None:
    with pytest.raises(ToolFailure) as refused:
        await site(f"operate/{name}", {"reason": "why"}, viewer)
    assert refused.value.code == "permission_denied"


async def test_a_decision_of_the_gateway_needs_the_role_human(site: Site) -> None:
    with pytest.raises(ToolFailure, match="role 'human'"):
        await site("call/gateway/workflow.submit", {}, person(roles=()))


@pytest.mark.parametrize(
    "path",
    [
        "call/items/claim_item",
        "call/items/query_items",
        "call/flows/workflow_create",
        "call/worker/work_done",
        "call/items",
        "call",
        "operate/flush",
        "operate/",
        "",
    ],
)
async def test_nothing_else_can_be_called(site: Site, path: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        await site(path, {})
    assert refused.value.code == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize("operation", ["delete", "DELETE", "Delete"])
async def test_items_and_notes_are_not_deleted_here(site: Site, operation: str) -> None:
    item = await site.create()
    for tool, what in (("manage_items", {"ids": [item]}), ("manage_notes", {"itemId": item})):
        with pytest.raises(ToolFailure, match="nothing is deleted here"):
            await site(f"call/items/{tool}", {"operation": operation, **what})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a": 1e999}', b"\xff", b"[" * 100_000])
async def test_a_malformed_body_is_refused(site: Site, body: bytes) -> None:
    with pytest.raises(ToolFailure) as refused:
        await site("call/items/advance_item", body)
    assert refused.value.code == "VALIDATION_ERROR"


async def test_the_same_request_twice_has_one_effect(site: Site) -> None:
    arguments = {"operation": "create", "items": [{"title": "once"}], "requestId": fresh_id()}
    first, again = [await site("call/items/manage_items", arguments) for _ in range(2)]
    assert first == again
    reused = await site("call/items/manage_items", {**arguments, "items": [{"title": "other"}]})
    assert "requestId" in reused["problem"]


async def test_of_two_people_one_wins_and_the_other_learns_why_not(site: Site) -> None:
    item = await site.create()
    told = [await site.advance(item, "complete", who) for who in (person("ada"), person("bob"))]
    assert "problem" not in told[0]
    assert "terminal" in told[1]["problem"]


async def test_a_batch_says_how_many_were_refused(site: Site) -> None:
    one, other = await site.create(), await site.create()
    await site.advance(one, "complete")
    changes = [{"itemId": item, "trigger": "block"} for item in (one, other)]
    told = await site("call/items/advance_item", {"transitions": changes})
    assert told["problem"].startswith("1 of 2 refused. ")


async def test_a_claim_is_ended_by_an_operator_and_its_agents_late_completion_is_refused(
    site: Site, store: Store, project: str
) -> None:
    item, agent = await site.create(), Client(store, project)
    claim = {"claims": [{"itemId": item}], "actor": actor("agent-7"), "requestId": fresh_id()}
    fence = (await agent("claim_item", **claim))["claimResults"][0]["fenceToken"]
    asked = {"itemId": item, "fence": fence, "reason": " its host is gone ", "requestId": fresh_id()}
    first, again = [await site("operate/end_claim", asked) for _ in range(2)]
    assert (
        first
        == again
        == {"result": {"itemId": item, "outcome": "ended", "agent": "agent-7", "fenceToken": fence, "role": "queue"}}
    )
    late = {"itemId": item, "trigger": "complete", "fenceToken": fence, "actor": actor("agent-7")}
    (refused,) = (await agent("advance_item", transitions=[late]))["results"]
    assert refused["errorCode"] == "stale_fence"
    history = await read_history(store, project, item.replace("-", ""))
    assert (history.changes[0].trigger, history.changes[0].summary) == ("end_claim", "its host is gone")
    assert '"ada"' in history.changes[0].actor


async def test_a_reason_is_needed_and_kept(site: Site, store: Store, project: str) -> None:
    for reason in ({}, {"reason": "  "}, {"reason": "x" * 501}, {"reason": 7}):
        with pytest.raises(ToolFailure, match="reason: must be 1 to 500"):
            await site("operate/drain_agents", {"name": "ag", **reason})
    assert "problem" not in await site("operate/drain_agents", {"name": "ag", "reason": "it loops"})
    assert "problem" not in await site("operate/end_drain_agents", {"name": "ag", "reason": "mended"})
    before = counted(ACTIONS, "end_drain_agents", "refused")
    assert "not drained" in (await site("operate/end_drain_agents", {"name": "ag", "reason": "again"}))["problem"]
    assert counted(ACTIONS, "end_drain_agents", "refused") == before + 1
    kept = await records(store, project)
    assert [(one.who.id, one.action, one.target.id, one.reason, one.outcome, one.detail) for one in kept] == [
        ("ada", "end_drain_agents", "ag", "again", "refused", "it was not drained"),
        ("ada", "end_drain_agents", "ag", "mended", "allowed", ""),
        ("ada", "drain_agents", "ag", "it loops", "allowed", ""),
    ]


async def test_nothing_is_done_without_a_record_and_a_click_has_one(
    site: Site, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"name": "ag", "reason": "it loops", "requestId": fresh_id()}

    async def kept() -> list[tuple[str, str]]:
        return [(one.reason, one.outcome) for one in await records(store, project)]

    async def died(*_: object) -> tuple[bool, int]:
        assert await kept() == [("it loops", "unknown")]
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(drains, "begin_drain", died)
        with pytest.raises(asyncio.CancelledError):
            await site("operate/drain_agents", asked)
    assert await kept() == [("it loops", "unknown")]  # nobody knows whether it was done
    assert await site("operate/drain_agents", asked) == {"result": {"answered": 0, "begun": True}}
    again = await site("operate/drain_agents", asked)
    assert again == {"said": "it was drained already", "result": {"answered": 0, "begun": False}}
    assert await kept() == [("it loops", "allowed")]
    with pytest.raises(ToolFailure, match="NAME: must be"):
        await site("operate/drain_agents", {"name": " ", "reason": "mistyped"})
    assert await kept() == [("it loops", "allowed")]


async def test_the_reason_of_an_act_on_a_workflow_is_in_the_event_of_the_act(
    site: Site, store: Store, project: str
) -> None:
    flows = Flows(store, project).as_("ada", "*")
    flow = await flows.create()
    for name, reason in (("pause_flow", "the database is full"), ("resume_flow", "it has room")):
        assert "problem" not in await site(f"operate/{name}", {"id": flow, "reason": reason})
    await flows("workflow_cancel", id=flow)
    assert "problem" not in await site("operate/retry_flow", {"id": flow, "reason": "by mistake"})
    progress = await read_progress(store, project, None, flow)
    assert progress is not None
    events, _ = await read_events(store, project, progress)
    assert [(one.kind, one.actor, one.reason) for one in events if one.reason] == [
        ("flow_retried", "ada", "by mistake"),
        ("flow_resumed", "ada", "it has room"),
        ("flow_paused", "ada", "the database is full"),
    ]
    told = [one.action for one in await records(store, project) if one.outcome == "allowed"]
    assert told == ["retry_flow", "resume_flow", "pause_flow"]


async def test_a_drain_and_its_reason_are_one_step(site: Site, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the process, there is both or neither: it makes one call of the store that writes."""
    scope = process_scope("here", f"fe-{fresh_id()[:8]}")
    host, _, slot = scope.partition(":")[2].partition("/")
    monkeypatch.setattr(Drains, "processes", lambda _: asyncio.sleep(0, {host: [slot]}))
    run = store.run

    async def died(script: Script[object], *words: object) -> object:
        await run(script, *words)  # type: ignore[arg-type]
        raise asyncio.CancelledError

    for name, reason, drained in (("drain", "it leaks", True), ("end_drain", "mended", False)):
        with monkeypatch.context() as patched:
            patched.setattr(store, "run", died)
            with pytest.raises(asyncio.CancelledError):
                await site(f"operate/{name}", {"scope": scope, "reason": reason}, project="")
        told = [(one.action, one.reason, one.outcome) for one in await records(store) if one.target.id == scope]
        assert told[0] == (name, reason, "allowed")
        assert (scope in await Drains(store).read()) == drained


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("end_claim", {"itemId": fresh_id()}, "RESOURCE_NOT_FOUND"),
        ("end_claim", {"itemId": "x"}, "VALIDATION_ERROR"),
        ("end_claim", {"item": "x"}, "VALIDATION_ERROR"),
        ("retry_flow", {"id": 1}, "RESOURCE_NOT_FOUND"),
        ("pause_flow", {"id": "1"}, "VALIDATION_ERROR"),
        ("drain", {"scope": "fleet"}, "VALIDATION_ERROR"),
        ("drain_agents", {"name": "x" * 600}, "VALIDATION_ERROR"),
        ("drain_agents", {"name": "x", "requestId": "x" * 201}, "VALIDATION_ERROR"),
    ],
)
async def test_what_does_not_exist_or_is_malformed_is_refused(
    site: Site, name: str, arguments: Json, code: str
) -> None:
    with pytest.raises(ToolFailure) as refused:
        await site(f"operate/{name}", {**arguments, "reason": "why"})
    assert refused.value.code == code


async def test_processes_that_do_not_run_cannot_be_drained(site: Site) -> None:
    with pytest.raises(ToolFailure, match="host: no process runs on nowhere"):
        await site("operate/drain", {"scope": "host:nowhere", "reason": "why"}, project="")
    with pytest.raises(ToolFailure, match="scope: must be fleet"):
        await site("operate/drain", {"scope": "all", "reason": "why"}, project="")


@pytest.mark.parametrize("typed", [{}, {"typed": ""}, {"typed": "fleed"}])
async def test_the_fleet_is_not_drained_without_its_name(site: Site, store: Store, typed: Json) -> None:
    told = await site("operate/drain", {"scope": "fleet", "reason": "why", **typed}, project="")
    assert told["problem"] == "Type fleet to go on: this changes all processes."
    assert not await Drains(store).read()
    assert not [one for one in await records(store) if one.target.id == "fleet"]


async def test_more_than_twenty_items_are_not_changed_without_the_name_of_the_project(site: Site, project: str) -> None:
    items = [await site.create() for _ in range(MANY + 1)]
    held = [{"itemId": item, "trigger": "hold"} for item in items]
    changes: dict[str, Json] = {
        "advance_item": {"transitions": held},
        "complete_tree": {"itemIds": items, "trigger": "cancel"},
        "manage_items": {"operation": "update", "items": [{"id": item, "priority": "low"} for item in items]},
    }
    for tool, arguments in changes.items():
        for typed in ({}, {"typed": "other"}, {"typed": 1}):
            told = await site(f"call/items/{tool}", {**arguments, **typed})
            assert told == {"problem": f"Type {project} to go on: this changes more than 20 items.", "result": {}}
    for given in (
        {"transitions": held, "typed": project},
        {"transitions": [{"itemId": items[0], "trigger": "resume"}]},
    ):
        assert "problem" not in await site("call/items/advance_item", given)


async def test_a_large_tree_is_not_ended_without_the_name_of_the_project(site: Site, project: str) -> None:
    root = await site.create("root")
    child = await site.create(parentId=root)
    below = [await site.create(parentId=child) for _ in range(MANY)]
    cancel = {"rootId": root, "trigger": "cancel", "includeRoot": True}
    for given in (cancel, cancel | {"rootId": root[:8]}):
        told = await site("call/items/complete_tree", given)
        assert told["problem"] == f"Type {project} to go on: this changes more than 20 items."
    assert "problem" not in await site("call/items/complete_tree", {**cancel, "rootId": child, "includeRoot": False})
    told = await site("call/items/complete_tree", {**cancel, "typed": project})
    assert "problem" not in told  # those that had ended before are no refusals
    assert told["result"]["summary"]["skipped"] == len(below)


def test_a_person_makes_so_many_changes_a_second_at_most() -> None:
    now = [100.0]
    rate = Rate(lambda: now[0])
    for _ in range(PER_SECOND):
        rate.check("ada")
    with pytest.raises(ToolFailure) as refused:
        rate.check("ada")
    assert refused.value.code == "actor_quota"
    rate.check("bob")
    now[0] += 0.25
    rate.check("ada")
    rate.check("ada")
    with pytest.raises(ToolFailure):
        rate.check("ada")


async def test_an_advance_without_a_required_note_names_it(store: Store, project: str) -> None:
    noted = msgspec.convert(
        {"work_item_schemas": {"bug": {"notes": [{"key": "repro", "role": "queue", "required": True}]}}}, Settings
    )
    site = Site(store, project, noted)
    item = await site.create(type="bug")
    assert (await site.advance(item, "start"))["problem"] == "required notes are not filled: repro"


def test_the_metric_has_room_for_all_actions() -> None:
    assert len([*OPERATIONS, *(tool for tools in CALLS.values() for tool in tools)]) <= ACTIONS.dimensions[0].limit
