"""Every JSON example of the contract of items, sent and produced over MCP against a running fleet."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp.client import Client

from tests.items.examples import differences
from tests.support.fleets import RunningFleet

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

CONFIG = """
work_item_schemas:
  feature:
    notes:
      - {key: acceptance-criteria, role: queue, required: true, description: "What must hold"}
  task-implementation:
    notes:
      - {key: requirements, role: queue, required: true, description: "What is asked for"}
      - key: done-criteria
        role: work
        required: true
        description: When it is done
        guidance: Fill the done-criteria note with...
traits:
  needs-migration-review:
    notes:
      - {key: migration-review, role: review, required: false, description: "What the migration touches"}
"""
UUID = "550e8400-e29b-41d4-a716-446655440000"
ALONE = frozenset({"$.items[].schemaMatch"})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("examples")
    config = folder / "fleet.yaml"
    config.write_text(CONFIG)
    arguments = ("--config", str(config), "--port", "0", "--frontends", "2", "--workers", "0")
    with RunningFleet(folder / "data", *arguments) as running:
        running.wait_ready()
        yield running


class Agent:
    """A real MCP client on a project of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, tool: str, **arguments: Any) -> Json:
        result = await self._client.call_tool(tool, arguments)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def add(self, title: str, **fields: Any) -> str:
        made = await self("manage_items", operation="create", items=[{"title": title, **fields}])
        return str(made["items"][0]["id"])

    async def note(self, item: str, key: str, role: str, body: str = "filled") -> Json:
        return await self(
            "manage_notes", operation="upsert", notes=[{"itemId": item, "key": key, "role": role, "body": body}]
        )

    async def advance(self, item: str, trigger: str) -> Json:
        return await self("advance_item", transitions=[{"itemId": item, "trigger": trigger}])

    async def claim(self, item: str, agent: str, **entry: Any) -> Json:
        return await self(
            "claim_item",
            claims=[{"itemId": item, **entry}],
            actor={"id": agent, "kind": "subagent", "parent": "orchestrator-1"},
            requestId=str(uuid.uuid4()),
        )


@pytest.fixture
async def agent(fleet: RunningFleet) -> AsyncIterator[Agent]:
    async with Client(f"{fleet.state.base_url}/p/x{uuid.uuid4().hex[:10]}/mcp/items") as client:
        yield Agent(client)


def check(example: Json, answer: Json, *more: str) -> None:
    found = differences(example, answer, more)
    assert not found, "\n".join(found)


async def test_manage_items(agent: Agent) -> None:
    parent = await agent.add("Feature")
    made = await agent(
        "manage_items",
        operation="create",
        parentId=parent,
        items=[
            {"title": "Design API schema", "priority": "high", "tags": "task-implementation"},
            {"title": "Write unit tests", "priority": "medium"},
        ],
    )
    expected = {
        "key": "requirements",
        "role": "queue",
        "required": True,
        "description": "What is asked for",
        "exists": False,
    }
    first = {
        "id": "uuid",
        "title": "Design API schema",
        "depth": 1,
        "role": "queue",
        "priority": "high",
        "requiresVerification": False,
        "tags": "task-implementation",
        "type": None,
        "expectedNotes": [expected],
    }
    made["items"][0]["expectedNotes"] = made["items"][0]["expectedNotes"][:1]
    check(
        {"items": [first], "created": 2, "failed": 0}, {**made, "items": made["items"][:1]}, *ALONE, "$.availableTraits"
    )
    item = made["items"][0]["id"]
    updated = await agent("manage_items", operation="update", items=[{"id": item, "priority": "high", "complexity": 3}])
    row = {"id": "uuid", "modifiedAt": "2025-01-01T00:00:00Z", "requiresVerification": False}
    check({"items": [row], "updated": 1, "failed": 0}, updated)
    for title in ("a", "b"):
        await agent.add(title, parentId=parent)
    deleted = await agent("manage_items", operation="delete", ids=[parent], recursive=True)
    check({"ids": [UUID], "deleted": 5, "failed": 0, "descendantsDeleted": 4}, deleted)
    assert deleted["ids"] == [parent]


async def test_query_items(agent: Agent) -> None:
    root = await agent.add("Auth Feature", priority="high", tags="backend", type="feature-implementation",
                           traits="needs-migration-review")  # fmt: skip
    done = await agent.add("Design login flow", priority="high", parentId=root, type="feature-task", tags="backend")
    waiting = [await agent.add(title, parentId=root) for title in ("one", "two")]
    work = await agent.add("three", parentId=root, priority="high")
    await agent.advance(done, "complete")
    await agent.advance(work, "start")
    await agent.claim(work, "worker")
    item = await agent("query_items", operation="get", id=work, includeAncestors=True)
    assert item["ancestors"] == [{"id": root, "title": "Auth Feature", "depth": 0}]
    found = await agent("query_items", operation="search", role="work", priority="high", limit=20, offset=0)
    row = {"id": "uuid", "parentId": "uuid", "title": "three", "role": "work", "priority": "high", "depth": 1}
    page = {"total": 2, "returned": 2, "limit": 20, "offset": 0}
    mine = [one for one in found["items"] if one["id"] == work]
    check({"items": [row], **page}, {**found, "items": mine}, "$.items[].statusLabel")
    claimed = await agent("query_items", operation="search", claimStatus="claimed")
    check(
        {"items": [{**row, "isClaimed": True}], "total": 1, "returned": 1, "limit": 50, "offset": 0},
        claimed,
        "$.items[].statusLabel",
    )
    counts = {"queue": 2, "work": 1, "review": 0, "blocked": 0, "terminal": 1}
    scoped = await agent("query_items", operation="overview", itemId=root)
    assert scoped["item"]["id"] == root
    assert scoped["childCounts"] == counts
    assert {child["id"] for child in scoped["children"]} == {done, work, *waiting}
    child = {
        "id": "uuid",
        "parentId": "uuid",
        "title": "Design login flow",
        "role": "terminal",
        "priority": "high",
        "depth": 1,
    }
    more = ("$.statusLabel", "$.tags", "$.type", "$.childCounts")
    check(child, next(one for one in scoped["children"] if one["id"] == done), *more)
    whole = await agent("query_items", operation="overview", includeChildren=True)
    example = {
        "items": [
            {
                "id": "uuid", "title": "Auth Feature", "role": "work", "priority": "high", "depth": 0,
                "tags": "backend", "type": "feature-implementation", "traits": ["needs-migration-review"],
                "childCounts": counts, "claimSummary": {"active": 1, "expired": 0, "unclaimed": 3},
                "children": [
                    {
                        "id": "uuid", "parentId": "uuid", "title": "Design login flow", "role": "terminal",
                        "priority": "high", "depth": 1, "tags": "backend", "type": "feature-task",
                        "childCounts": {"queue": 0, "work": 0, "review": 0, "blocked": 0, "terminal": 0},
                    }
                ],
            }
        ],
        "total": 1,
    }  # fmt: skip
    whole["items"][0]["children"] = [one for one in whole["items"][0]["children"] if one["id"] == done]
    check(example, whole, "$.items[].statusLabel", "$.items[].children[].statusLabel")


async def test_create_work_tree(agent: Agent) -> None:
    deps = [{"from": "t1", "to": "t2", "type": "BLOCKS"}, {"from": "t2", "to": "t3", "type": "BLOCKS"}]
    children = [
        {"ref": "t1", "title": "Design login flow", "priority": "high"},
        {"ref": "t2", "title": "Implement JWT handler", "priority": "high"},
        {"ref": "t3", "title": "Write integration tests", "priority": "medium"},
    ]
    root = {"title": "Authentication Feature", "priority": "high", "tags": "feature"}
    made = await agent("create_work_tree", root=root, children=children, deps=deps, createNotes=False)
    note = {"key": "acceptance-criteria", "role": "queue", "required": True, "exists": False}
    child = {"ref": "t1", "id": "uuid", "title": "Design login flow", "role": "queue", "depth": 1, "schemaMatch": False,
             "expectedNotes": []}  # fmt: skip
    example = {
        "root": {"id": "uuid", "title": "Authentication Feature", "role": "queue", "depth": 0, "tags": "feature",
                 "schemaMatch": True, "expectedNotes": [note]},
        "children": [
            child,
            {**child, "ref": "t2", "title": "Implement JWT handler"},
            {**child, "ref": "t3", "title": "Write integration tests"},
        ],
        "dependencies": [
            {"id": "uuid", "fromRef": "t1", "toRef": "t2", "type": "BLOCKS"},
            {"id": "uuid", "fromRef": "t2", "toRef": "t3", "type": "BLOCKS"},
        ],
        "notes": [],
    }  # fmt: skip
    check(example, made, "$.root.expectedNotes[].description")
    with_threshold = await agent("create_work_tree", root={"title": "R"}, children=children[:2],
                                 deps=[{"from": "t1", "to": "t2", "unblockAt": "work"}])  # fmt: skip
    edge = {"id": "uuid", "fromRef": "t1", "toRef": "t2", "type": "BLOCKS", "unblockAt": "work"}
    check({"dependencies": [edge]}, {"dependencies": with_threshold["dependencies"]})
    typed = await agent("create_work_tree", root={"title": "R"}, createNotes=True,
                        children=[{"ref": "t1", "title": "T", "type": "task-implementation"}])  # fmt: skip
    blank = {"itemRef": "t1", "key": "requirements", "role": "queue", "id": "uuid"}
    check({"notes": [blank, {**blank, "key": "done-criteria", "role": "work"}]}, {"notes": typed["notes"]})
    inline = await agent(
        "create_work_tree",
        root={"title": "Feature X"},
        children=[{"ref": "t1", "title": "Task 1"}],
        notes=[
            {"itemRef": "root", "key": "specification", "role": "queue", "body": "Full plan..."},
            {"itemRef": "t1", "key": "task-scope", "role": "queue", "body": "Build the thing"},
        ],
    )
    assert [(note["itemRef"], note["key"]) for note in inline["notes"]] == [
        ("root", "specification"),
        ("t1", "task-scope"),
    ]


async def test_complete_tree(agent: Agent) -> None:
    made = await agent(
        "create_work_tree",
        root={"title": "R"},
        children=[
            {"ref": "a", "title": "Design login flow"},
            {"ref": "b", "title": "Implement handler", "type": "task-implementation"},
            {"ref": "c", "title": "Write tests"},
        ],
        deps=[{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
        notes=[{"itemRef": "b", "key": "requirements", "role": "queue", "body": "x"}],
    )
    answer = await agent("complete_tree", rootId=made["root"]["id"], trigger="complete")
    example = {
        "results": [
            {"itemId": "uuid", "title": "Design login flow", "applied": True, "trigger": "complete"},
            {"itemId": "uuid", "title": "Implement handler", "applied": False,
             "gateErrors": ["missing: done-criteria"]},
            {"itemId": "uuid", "title": "Write tests", "applied": False, "skipped": True,
             "skippedReason": "dependency gate failed"},
        ],
        "summary": {"total": 3, "completed": 1, "skipped": 1, "gateFailures": 1},
    }  # fmt: skip
    check(example, answer, "$.results[].statusLabel", "$.results[].error")


async def test_notes(agent: Agent) -> None:
    item = await agent.add("x", tags="task-implementation")
    body = "The handler must validate JWT signatures and return 401 on failure."
    written = await agent.note(item, "requirements", "queue", body)
    example = {
        "notes": [{"id": "uuid", "itemId": "uuid", "key": "requirements", "role": "queue"}],
        "upserted": 1,
        "failed": 0,
        "itemContext": {item: {"guidancePointer": None, "noteProgress": {"filled": 1, "remaining": 0, "total": 1}}},
    }
    check(example, written)
    listed = await agent("query_notes", operation="list", itemId=item)
    row = {"id": "uuid", "itemId": "uuid", "key": "requirements", "role": "queue", "body": body,
           "createdAt": "2025-01-01T00:00:00Z", "modifiedAt": "2025-01-01T00:00:00Z"}  # fmt: skip
    check({"notes": [row], "total": 1}, listed)
    bare = await agent("query_notes", operation="list", itemId=item, role="queue", includeBody=False)
    check({"notes": [{name: value for name, value in row.items() if name != "body"}], "total": 1}, bare)
    assert (await agent("manage_notes", operation="delete", itemId=item))["deleted"] == 1


async def test_dependencies(agent: Agent) -> None:
    a, b, c = [await agent.add(title, priority="high") for title in ("Design API", "b", "c")]
    edge = {"fromItemId": a, "toItemId": b, "type": "BLOCKS", "unblockAt": "terminal"}
    made = await agent("manage_dependencies", operation="create", dependencies=[edge])
    shown = {"id": "uuid", "fromItemId": "uuid-a", "toItemId": "uuid-b", "type": "BLOCKS", "unblockAt": "terminal"}
    check({"dependencies": [shown], "created": 1}, made)
    await agent.advance(a, "complete")
    queried = await agent(
        "query_dependencies", itemId=b, direction="incoming", includeItemInfo=True, neighborsOnly=False
    )
    related = {"title": "Design API", "role": "terminal", "priority": "high"}
    example = {
        "dependencies": [{**shown, "effectiveUnblockRole": "terminal", "fromItem": related}],
        "counts": {"incoming": 1, "outgoing": 0, "relatesTo": 0},
        "graph": {"chain": ["uuid-a", "uuid-b"], "depth": 1},
    }
    check(example, queried, "$.dependencies[].toItem")
    refused = await agent("manage_dependencies", operation="create", dependencies=[{"fromItemId": a, "toItemId": a}])
    failure = {"index": 0, "error": "A dependency cannot reference the same item on both sides"}
    check({"dependencies": [], "created": 0, "failed": 1, "failures": [failure]}, refused)
    gone = await agent("manage_dependencies", operation="delete", fromItemId=a, toItemId=b)
    check({"fromItemId": "uuid-a", "toItemId": "uuid-b", "deleted": 1}, gone)
    linear = await agent("manage_dependencies", operation="create", pattern="linear", itemIds=[a, b, c])
    assert linear["created"] == 2
    third = await agent.add("d")
    await agent("manage_dependencies", operation="create", dependencies=[{"fromItemId": b, "toItemId": third}])
    every = await agent("manage_dependencies", operation="delete", fromItemId=b, deleteAll=True)
    check({"itemId": "uuid-a", "deleted": 3}, every)


async def test_advance_item(agent: Agent) -> None:
    parent = await agent.add("Auth Feature")
    item = await agent.add("x", type="task-implementation", parentId=parent)
    after = await agent.add("Next task")
    edge = {"fromItemId": item, "toItemId": after, "unblockAt": "work"}
    await agent("manage_dependencies", operation="create", dependencies=[edge])
    refused = await agent.advance(item, "start")
    gate = {"itemId": "uuid", "trigger": "start", "applied": False,
            "error": "Gate check failed: required notes not filled for queue phase: requirements"}  # fmt: skip
    result = refused["results"][0]
    result["error"], _, call = result["error"].partition(". ")
    assert call.startswith("Fill them with manage_notes {")
    none = {"summary": {"total": 1, "succeeded": 0, "failed": 1}, "allUnblockedItems": []}
    check({"results": [gate], **none}, refused, "$.results[].missingNotes")
    blocked = await agent.advance(after, "start")
    blockers = [{"fromItemId": "uuid-blocker", "currentRole": "queue", "requiredRole": "work"}]
    check(
        {
            "results": [{"itemId": "uuid", "trigger": "start", "applied": False, "error": "...", "blockers": blockers}],
            **none,
        },
        blocked,
    )
    await agent.note(item, "requirements", "queue")
    applied = await agent.advance(item, "start")
    unblocked = [{"itemId": "uuid-next", "title": "Next task"}]
    cascade = {
        "itemId": "uuid-parent",
        "title": "Auth Feature",
        "previousRole": "queue",
        "targetRole": "work",
        "applied": True,
    }
    expected = {
        "key": "done-criteria",
        "role": "work",
        "required": True,
        "description": "When it is done",
        "exists": False,
    }
    example = {
        "results": [
            {
                "itemId": "uuid", "previousRole": "queue", "newRole": "work", "trigger": "start", "applied": True,
                "cascadeEvents": [cascade], "unblockedItems": unblocked, "expectedNotes": [expected],
                "guidancePointer": "Fill the done-criteria note with...",
                "noteProgress": {"filled": 0, "remaining": 1, "total": 1},
            }
        ],
        "summary": {"total": 1, "succeeded": 1, "failed": 0},
        "allUnblockedItems": unblocked,
    }  # fmt: skip
    more = ("$.results[].statusLabel", "$.results[].cascadeEvents[].trigger", "$.results[].expectedNotes[].guidance")
    check(example, applied, *more)


async def test_get_next_status(agent: Agent) -> None:
    item, other = (
        await agent.add("a", type="task-implementation", traits="needs-migration-review"),
        await agent.add("b"),
    )
    answer = await agent("get_next_status", itemId=other)
    ready = {"recommendation": "Ready", "currentRole": "queue", "nextRole": "work", "trigger": "start",
             "progressionPosition": "1/3"}  # fmt: skip
    check(ready, answer)
    await agent("manage_dependencies", operation="create", dependencies=[{"fromItemId": item, "toItemId": other}])
    blockers = [{"fromItemId": "uuid-blocker", "currentRole": "queue", "requiredRole": "terminal"}]
    check(
        {"recommendation": "Blocked", "currentRole": "queue", "blockers": blockers},
        await agent("get_next_status", itemId=other),
    )
    await agent.advance(item, "block")
    held = {"recommendation": "Blocked", "currentRole": "blocked",
            "suggestion": "Use 'resume' trigger to return to previous role"}  # fmt: skip
    check(held, await agent("get_next_status", itemId=item))
    await agent.advance(item, "cancel")
    reason = "Item is terminal. Use 'reopen' trigger to move back to queue, or 'cancel' if already cancelled."
    over = {"recommendation": "Terminal", "currentRole": "terminal", "reason": reason}
    check(over, await agent("get_next_status", itemId=item))


async def test_get_context(agent: Agent) -> None:
    item = await agent.add("JWT Handler", tags="task-implementation", parentId=await agent.add("parent"))
    await agent.note(item, "requirements", "queue")
    await agent.claim(item, "agent-worker-42")
    entry = {"key": "requirements", "role": "queue", "required": True, "description": "What is asked for",
             "exists": True, "filled": True}  # fmt: skip
    time = "2026-01-01T12:00:00Z"
    example = {
        "mode": "item",
        "item": {"id": "uuid", "title": "JWT Handler", "role": "queue", "tags": "task-implementation", "depth": 1},
        "schema": [
            entry,
            {**entry, "key": "done-criteria", "role": "work", "description": "When it is done", "exists": False,
             "filled": False},
        ],
        "gateStatus": {"canAdvance": True, "phase": "queue", "missing": []},
        "guidancePointer": None,
        "noteProgress": {"filled": 1, "remaining": 0, "total": 1},
        "claimDetail": {"claimedBy": "agent-worker-42", "claimedAt": time, "claimExpiresAt": time,
                        "originalClaimedAt": time, "isExpired": False},
    }  # fmt: skip
    check(example, await agent("get_context", itemId=item), "$.schema[].guidance")
    await agent.advance(await agent.add("held"), "block")
    claimant = {"id": "agent-worker-42", "kind": "subagent"}
    moved = {"itemId": item, "trigger": "start", "actor": claimant}
    await agent("advance_item", transitions=[moved])
    health = await agent("get_context")
    active = {"id": "uuid", "title": "JWT Handler", "role": "work", "tags": "task-implementation"}
    assert differences(active, next(one for one in health["activeItems"] if one["id"] == item)) == []
    stalled: Json = {"id": "uuid", "title": "JWT Handler", "role": "work", "missingNotes": ["done-criteria"]}
    example = {
        "mode": "health-check",
        "blockedItems": [{"id": "uuid", "title": "held", "role": "blocked"}],
        "stalledItems": [stalled],
        "claimSummary": {"active": 1, "expired": 0},
    }
    del health["activeItems"]
    stalled_ones = "$.stalledItems[].guidancePointer", "$.stalledItems[].tags"
    check(example, health, "$.blockedItems[].tags", *stalled_ones, "$.heldBack")
    resumed = await agent("get_context", since="2025-01-01T09:00:00Z", includeAncestors=True)
    assert resumed["mode"] == "session-resume"
    assert resumed["recentTransitions"][0]["trigger"] in ("start", "cascade")


async def test_get_next_item(agent: Agent) -> None:
    parent = await agent.add("p")
    first = {"priority": "high", "complexity": 2, "summary": "Create wireframes and API contract"}
    await agent.add("Design login flow", tags="task-implementation", parentId=parent, **first)
    second = await agent.add("Write unit tests", priority="medium", complexity=3, parentId=parent)
    await agent.claim(second, "worker")
    example = {"itemId": "uuid", "title": "Design login flow", "role": "queue", "priority": "high", "complexity": 2}
    details = {"summary": first["summary"], "tags": "task-implementation", "parentId": "uuid-parent"}
    answer = await agent("get_next_item", parentId=parent, limit=3, includeDetails=True)
    check({"recommendations": [{**example, **details}], "total": 1}, answer)
    both = await agent("get_next_item", parentId=parent, limit=3, includeClaimed=True)
    claimed = {"itemId": "uuid2", "title": "Write unit tests", "role": "queue", "priority": "medium", "complexity": 3}
    rows = [{**example, "isClaimed": False}, {**claimed, "itemId": "uuid", "isClaimed": True}]
    check({"recommendations": rows, "total": 2}, both)


async def test_claim_item(agent: Agent) -> None:
    item = await agent.add("x")
    placed = await agent.claim(item, "worker-agent-7", ttlSeconds=900)
    time = "2026-01-01T12:00:00Z"
    success = {"itemId": UUID, "outcome": "success", "claimedBy": "worker-agent-7", "claimedAt": time,
               "claimExpiresAt": time, "originalClaimedAt": time}  # fmt: skip
    counts = {"claimsTotal": 1, "claimsSucceeded": 1, "claimsFailed": 0,
              "releasesTotal": 0, "releasesSucceeded": 0, "releasesFailed": 0}  # fmt: skip
    check({"claimResults": [success], "releaseResults": [], "summary": counts}, placed, "$.claimResults[].fenceToken")
    contested = await agent.claim(item, "another")
    wait = contested["claimResults"][0].pop("retryAfterMs")
    assert 0 < wait <= 900_000
    lost = {"itemId": UUID, "outcome": "already_claimed"}
    counts = {**counts, "claimsSucceeded": 0, "claimsFailed": 1}
    more = ("$.claimResults[].kind", "$.claimResults[].contendedItemId")
    check({"claimResults": [lost], "releaseResults": [], "summary": counts}, contested, *more)


async def test_get_blocked_items(agent: Agent) -> None:
    blocker = await agent.add("Design login flow")
    blocked = await agent.add("Implement JWT handler", priority="high", complexity=5, summary="Handle JWT validation",
                              tags="backend")  # fmt: skip
    edge = {"fromItemId": blocker, "toItemId": blocked, "unblockAt": "terminal"}
    await agent("manage_dependencies", operation="create", dependencies=[edge])
    waits_for = {"itemId": "uuid-blocker", "title": "Design login flow", "role": "queue", "unblockAt": "terminal",
                 "effectiveUnblockRole": "terminal", "satisfied": False}  # fmt: skip
    example = {
        "itemId": "uuid", "title": "Implement JWT handler", "role": "queue", "priority": "high", "complexity": 5,
        "blockType": "dependency", "blockedBy": [waits_for], "blockerCount": 1,
        "summary": "Handle JWT validation", "tags": "backend",
    }  # fmt: skip
    answer = await agent("get_blocked_items", includeItemDetails=True, includeAncestors=True)
    check({"blockedItems": [example], "total": 1}, answer, "$.blockedItems[].ancestors")


async def test_idempotency_and_tool_errors(agent: Agent) -> None:
    item = await agent.add("x")
    call = {
        "transitions": [{"itemId": item, "trigger": "start", "actor": {"id": "agent-1", "kind": "subagent"}}],
        "requestId": str(uuid.uuid4()),
    }
    first = await agent("advance_item", **call)
    assert first["results"][0]["applied"]
    assert await agent("advance_item", **call) == first
    error = await agent("advance_item", transitions=[{"itemId": item, "trigger": "cascade"}])
    check({"error": {"kind": "permanent", "code": "VALIDATION_ERROR", "message": "..."}}, error)


async def test_numbers_in_properties_keep_their_digits(agent: Agent) -> None:
    """Over the wire and through an update that merges traits in."""
    number = "12345678901234567890.10"
    item = await agent.add(
        "x", properties=f'{{"n": {number}}}', metadata=f"[{number}]", traits="needs-migration-review"
    )
    shown = await agent("query_items", operation="get", id=item)
    assert (shown["metadata"], number in shown["properties"]) == (f"[{number}]", True)
    await agent("manage_items", operation="update", items=[{"id": item, "traits": ""}])
    assert (await agent("query_items", operation="get", id=item))["properties"] == f'{{"n": {number}}}'
    refused = await agent("manage_items", operation="update", items=[{"id": item, "properties": '{"n": 1e400}'}])
    assert refused["failures"][0]["error"] == "properties: 1e400 is no number that JSON can hold"
