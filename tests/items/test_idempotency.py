"""requestId: one effect and one answer, for every mutating call."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.actor import Actor, Distrusted, Trusted, Verification, echo
from coordinator.toolsets.items.audit import audit
from tests.items.calls import (
    Prepare,
    all_gone,
    claim,
    contents,
    create,
    events,
    events_of_one,
    every_call,
    keyed,
)
from tests.items.client import Client, Json, actor, fresh_id

pytestmark = pytest.mark.anyio


async def records(tools: Client) -> set[bytes]:
    """The keys of all requests that the project knows."""
    return {key async for key in tools.store.client.scan_iter(match=keys.request.key(tools.project, "*"))}


@pytest.mark.every_store
@every_call
async def test_a_retry_gets_the_first_answer_verbatim(tools: Client, prepare: Prepare) -> None:
    prepared = await prepare(tools)
    arguments = keyed(prepared, fresh_id())
    first = await tools.answer(prepared[0], **arguments)
    before = await contents(tools)
    assert await tools.answer(prepared[0], **arguments) == first
    assert await contents(tools) == before
    await all_gone(tools)
    assert await tools.answer(prepared[0], **arguments) == first


@every_call
async def test_a_hundred_equal_concurrent_calls_have_one_effect(
    tools: Client, elsewhere: Client, prepare: Prepare
) -> None:
    prepared = await prepare(tools)
    arguments = keyed(prepared, fresh_id())
    before = await events(tools)
    answers = await asyncio.gather(*(tools.answer(prepared[0], **arguments) for _ in range(100)))
    assert len(set(answers)) == 1
    assert await events(tools) - before == await events_of_one(elsewhere, prepare)
    assert not (await audit(tools.store, tools.project)).differences


@every_call
async def test_other_arguments_under_the_same_id_are_rejected(tools: Client, prepare: Prepare) -> None:
    prepared = await prepare(tools)
    request_id = fresh_id()
    await tools(prepared[0], **keyed(prepared, request_id))
    other = await prepare(tools)
    before = await contents(tools)
    failure = await tools.refusal(other[0], **keyed(other, request_id))
    assert (failure.code, failure.kind) == ("request_id_reused", "permanent")
    assert failure.message.startswith("requestId: ")
    assert await contents(tools) == before


async def test_an_explicit_default_is_the_same_argument(tools: Client) -> None:
    item, me, request_id = await tools.add(), actor("agent"), fresh_id()
    first = await tools("claim_item", actor=me, requestId=request_id, claims=[{"itemId": item}])
    spelled = {"itemId": item, "ttlSeconds": 900, "fenceToken": None}
    assert await tools("claim_item", actor=me, requestId=request_id, claims=[spelled], releases=[], waitMs=0) == first


async def test_a_repeated_call_may_write_out_what_it_has_left_out(tools: Client) -> None:
    one, two = await tools.add("one"), await tools.add("two")
    absent: Json = dict.fromkeys(("requires", "resources", "notBefore", "dueAt", "recurs", "budget", "maxAttempts"))
    spelled = {**absent, "priority": "medium", "role": "Queue", "summary": " ", "tags": "", "parentId": None}
    plain, resource = {"title": "t"}, {"key": "k", "mode": "exclusive", "units": 1}
    note = {"itemId": one, "key": "k", "role": "work"}
    edge, tied = {"fromItemId": one, "toItemId": two}, {"from": "c", "to": "root"}
    start = {"itemId": one, "trigger": "start", "actor": actor("agent")}
    calls: list[tuple[str, Json, Json]] = [
        (
            "manage_items",
            {"operation": "create", "items": [plain, {**plain, "resources": [{"key": "k"}]}]},
            {
                "operation": "Create",
                "items": [{**plain, **spelled}, {**plain, "resources": [resource]}],
                "parentId": "",
            },
        ),
        (
            "create_work_tree",
            {"root": plain, "children": [{**plain, "ref": "c"}], "deps": [tied]},
            {"root": {**plain, "priority": "Medium", "resources": None}, "deps": [{**tied, "unblockAt": "terminal"}]},
        ),
        ("manage_notes", {"operation": "upsert", "notes": [note]}, {"notes": [{**note, "role": "WORK", "body": " "}]}),
        (
            "manage_dependencies",
            {"operation": "create", "dependencies": [edge]},
            {"dependencies": [{**edge, "type": "blocks", "unblockAt": "terminal"}], "type": "BLOCKS"},
        ),
        ("claim_item", {"claims": [{"itemId": one}]}, {"claims": [{"itemId": one, "usage": {}, "agentId": "agent"}]}),
        ("advance_item", {"transitions": [start]}, {"transitions": [{**start, "trigger": "START", "summary": " "}]}),
        (
            "claim_item",
            {"claims": [{"selector": {}}]},
            {"claims": [{"selector": {"orderBy": "priority", "role": None}}]},
        ),
    ]
    for tool, first, repeated in calls:
        # The actor of advance_item is that of its elements.
        by: Json = {"requestId": fresh_id()} | ({} if tool == "advance_item" else {"actor": actor("agent")})
        answer = await tools.answer(tool, **first, **by)
        assert await tools.answer(tool, **{**first, **repeated}, **by) == answer, tool


async def test_null_in_an_update_is_not_what_leaving_it_out_is(tools: Client) -> None:
    item, by = await tools.add("t", description="d"), {"actor": actor("agent"), "requestId": fresh_id()}
    call: Json = {"operation": "update", "items": [{"id": item, "title": "u"}]}
    await tools("manage_items", **call, **by)
    call["items"][0]["description"] = None
    assert (await tools.refusal("manage_items", **call, **by)).code == "request_id_reused"
    assert (await tools.get(item))["description"] == "d"


async def test_another_tool_under_the_same_id_is_rejected(tools: Client) -> None:
    request_id = fresh_id()
    await tools("claim_item", **keyed(await claim(tools), request_id))
    failure = await tools.refusal("manage_items", **keyed(await create(tools), request_id))
    assert failure.code == "request_id_reused"


async def test_each_agent_and_each_project_has_its_own_ids(tools: Client, elsewhere: Client) -> None:
    arguments = {"operation": "create", "items": [{"title": "t"}], "requestId": fresh_id()}
    answers = {
        await tools.answer("manage_items", **arguments, actor=actor("one")),
        await tools.answer("manage_items", **arguments, actor=actor("two")),
        await elsewhere.answer("manage_items", **arguments, actor=actor("one")),
    }
    assert len(answers) == 3


@every_call
async def test_without_actor_or_usable_id_a_call_runs_each_time(tools: Client, prepare: Prepare) -> None:
    tool, arguments = await prepare(tools)
    if tool == "claim_item":
        failure = await tools.refusal(tool, **arguments, actor=actor("agent"), requestId="not-a-uuid")
        assert failure.code == "VALIDATION_ERROR"
        return
    calls = [
        {**arguments, "actor": actor("agent"), "requestId": "not-a-uuid"},
        {**arguments, "actor": actor("agent"), "requestId": ""},
        {**arguments, "actor": actor("agent")},
        {**arguments, "requestId": fresh_id()},
    ]
    if tool == "advance_item":
        transitions = [{**each, "actor": None} for each in arguments["transitions"]]
        calls = [{**arguments, "requestId": "not-a-uuid"}, {"transitions": transitions, "requestId": fresh_id()}]
    before = await records(tools)
    for call in calls:
        await tools.attempt(tool, **call)
        await tools.attempt(tool, **call)
    assert await records(tools) == before


async def test_ids_are_case_insensitive(tools: Client) -> None:
    request_id = fresh_id()
    prepared = await create(tools)
    first = await tools.answer(prepared[0], **keyed(prepared, request_id))
    assert await tools.answer(prepared[0], **keyed(prepared, request_id.upper())) == first


async def test_a_renewed_proof_is_the_same_call(tools: Client) -> None:
    tool, arguments = await claim(tools)
    call = {**arguments, "requestId": fresh_id()}
    first = await tools.answer(tool, **call, actor=actor("agent", proof="token 1"))
    assert await tools.answer(tool, **call, actor=actor("agent", proof="token 2")) == first


@pytest.mark.parametrize("good_first", [True, False])
async def test_later_validity_of_proofs_does_not_change_the_answer(
    store: Store, project: str, good_first: bool
) -> None:
    """The record of a batch is kept under its first proof; the others may be renewed, or expire."""
    bad: set[str | None] = set() if good_first else {"second"}

    async def policy(actor: Actor) -> Trusted:
        trusted = await trust_self_reported(actor)
        if actor.proof in bad:
            raise Distrusted("the proof is no good", trusted)
        return trusted

    tools = Client(store, project, resolve_actor=policy)
    items = await tools.add_many(2)
    batch = [
        {"itemId": item, "trigger": "start", "actor": actor("agent", proof=proof)}
        for item, proof in zip(items, ("first", "second"), strict=True)
    ]
    call = {"transitions": batch, "requestId": fresh_id()}
    first = await tools("advance_item", **call)
    assert [result["applied"] for result in first["results"]] == [True, good_first]
    bad ^= {"second"}
    assert await tools("advance_item", **call) == first
    assert [await tools.role(item) for item in items] == ["work", "work" if good_first else "queue"]


@pytest.mark.parametrize("tool", ["advance_item", "manage_notes"])
async def test_a_replayed_answer_has_the_verification_of_the_first_proof(store: Store, project: str, tool: str) -> None:
    states = iter(
        [*[Verification("verified", "jwks", None)] * 2, *[Verification("rejected", "jwks", "it has expired")] * 2]
    )

    async def verify(actor: Actor) -> Trusted:
        return Trusted(actor.id, echo(actor), next(states))

    tools = Client(store, project, resolve_actor=verify)
    item, agent = await tools.add(), actor("agent", proof="token")
    call: Json = {"requestId": fresh_id()}
    if tool == "advance_item":
        again = {"itemId": item, "trigger": "start", "actor": agent}
        call["transitions"] = [again, {**again, "trigger": "complete"}]
    else:
        call |= {"operation": "upsert", "actor": agent}
        call["notes"] = [{"itemId": item, "key": "k", "role": "work", "actor": agent}]
    first = await tools(tool, **call)
    assert await tools(tool, **call) == first
    assert next(states, None) is None


@pytest.mark.parametrize("tool", ["advance_item", "manage_notes", "create_work_tree"])
@pytest.mark.parametrize("change", [{"kind": "robot"}, {"kind": "user"}, {"parent": "boss"}])
async def test_another_signature_is_another_argument(tools: Client, tool: str, change: Json) -> None:
    item, agent = await tools.add(), actor("agent")

    def call(who: Json) -> Json:
        if tool == "advance_item":
            return {"transitions": [{"itemId": item, "trigger": "start", "actor": agent},
                                    {"itemId": item, "trigger": "complete", "actor": who}]}  # fmt: skip
        if tool == "create_work_tree":
            return {"root": {"title": "t"}, "actor": agent if who is agent else {**agent, **change, "kind": "user"}}
        notes = [{"itemId": item, "key": "k", "role": "queue", "actor": signed} for signed in (agent, who)]
        return {"operation": "upsert", "notes": notes, "actor": agent}

    request_id = fresh_id()
    await tools(tool, **call(agent), requestId=request_id)
    failure = await tools.refusal(tool, **call({**agent, **change}), requestId=request_id)
    assert failure.code == "request_id_reused"


@pytest.mark.parametrize("role", ["queue", "work"])
async def test_a_tree_is_replayed_under_other_schemas(tools: Client, role: str) -> None:
    def configure(*notes: Json) -> None:
        tools.configure(msgspec.convert({"work_item_schemas": {"bug": {"notes": notes}}}, Settings))

    plan = {"key": "plan", "role": "queue"}
    configure(plan)
    call: Json = {
        "root": {"title": "t", "type": "bug"},
        "createNotes": True,
        "notes": [{"itemRef": "root", "key": "plan", "role": "queue", "body": "b"}],
        "actor": actor("agent"),
        "requestId": fresh_id(),
    }
    first = await tools("create_work_tree", **call)
    configure({**plan, "role": role}, {"key": "log", "role": "work"})
    again = await tools("create_work_tree", **call)
    assert (again["root"]["id"], again["notes"]) == (first["root"]["id"], first["notes"])
    assert [note["exists"] for note in again["root"]["expectedNotes"]] == [True, False]


async def test_records_live_as_long_as_configured(tools: Client) -> None:
    for settings in (Settings(), Settings(idempotency_seconds=60)):
        client = Client(tools.store, tools.project, settings)
        await client.claim("agent", await client.add())
        (key,) = await records(tools)
        left = await tools.store.client.pttl(key)
        assert 0 <= settings.idempotency_seconds * 1000 - left < 50_000
        assert await tools.store.client.strlen(key) < 250
        await tools.store.client.delete(key)


async def test_a_failed_call_may_be_retried_under_its_id(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"operation": "create", "items": [{"title": "t"}], "parentId": "abcdef"}
    call = {**arguments, "actor": actor("agent"), "requestId": fresh_id()}
    assert (await tools.refusal("manage_items", **call)).code == "RESOURCE_NOT_FOUND"
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: ["abcdef" + "0" * 26] * count)
    await tools.add()
    monkeypatch.undo()
    assert (await tools("manage_items", **call))["created"] == 1


async def test_new_calls_replays_and_mismatches_are_counted_separately(tools: Client) -> None:
    seen: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: seen.append(outcome)
    request = fresh_id()
    arguments: Json = {"operation": "create", "actor": actor("ann"), "items": [{"title": "t"}]}
    first = await tools.answer("manage_items", requestId=request, **arguments)
    assert await tools.answer("manage_items", requestId=request, **arguments) == first
    with pytest.raises(ToolFailure):
        await tools.answer("manage_items", requestId=request, **(arguments | {"items": [{"title": "u"}]}))
    await tools.answer("get_next_item")
    assert [outcome for outcome in seen if outcome != "ok"] == ["new", "replay", "mismatch"]
