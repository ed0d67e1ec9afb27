"""get_context about one item: its notes against its schema, its gate, its claim."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store
from tests.items.client import Client, Json
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio

DECLARED = {
    "work_item_schemas": {
        "bug": {
            "notes": [
                {"key": "repro", "role": "queue", "required": True, "description": "how", "guidance": "Write steps."},
                {"key": "hint", "role": "queue", "description": "an idea"},
                {"key": "cause", "role": "work", "required": True, "guidance": "Say why.", "skill": "root-cause"},
                {"key": "fix", "role": "work", "required": True, "skill": "write-code"},
            ]
        },
        "free": {"notes": []},
    }
}


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(DECLARED, Settings))


async def write(tools: Client, item: str, key: str, role: str, body: str = "text") -> None:
    note = {"itemId": item, "key": key, "role": role, "body": body}
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1


async def test_an_item_without_schema_is_shown_with_nulls(tools: Client) -> None:
    item = await tools.add("t" * 80)
    assert await tools("get_context", itemId=item) == {
        "mode": "item",
        "item": {"id": item, "title": "t" * 80, "role": "queue", "depth": 0},
        "schema": [],
        "gateStatus": {"canAdvance": True, "phase": "queue", "missing": []},
        "guidancePointer": None,
        "noteProgress": None,
    }


@pytest.mark.every_store
async def test_the_whole_schema_is_shown_and_the_current_phase_checked(with_schemas: Client) -> None:
    item = await with_schemas.add("title", type="bug", tags="a,b")
    await write(with_schemas, item, "hint", "queue", "  ")
    await write(with_schemas, item, "cause", "work")
    await write(with_schemas, item, "off-schema", "work")
    assert await with_schemas("get_context", itemId=item) == {
        "mode": "item",
        "item": {"id": item, "title": "title", "role": "queue", "tags": "a,b", "depth": 0},
        "schema": [
            {
                "key": "repro",
                "role": "queue",
                "required": True,
                "description": "how",
                "exists": False,
                "guidance": "Write steps.",
                "filled": False,
            },
            {
                "key": "hint",
                "role": "queue",
                "required": False,
                "description": "an idea",
                "exists": True,
                "filled": False,
            },
            {
                "key": "cause",
                "role": "work",
                "required": True,
                "description": "",
                "exists": True,
                "guidance": "Say why.",
                "skill": "root-cause",
                "filled": True,
            },
            {
                "key": "fix",
                "role": "work",
                "required": True,
                "description": "",
                "exists": False,
                "skill": "write-code",
                "filled": False,
            },
        ],
        "gateStatus": {"canAdvance": False, "phase": "queue", "missing": ["repro"]},
        "guidancePointer": "Write steps.",
        "noteProgress": {"filled": 0, "remaining": 1, "total": 1},
    }


async def test_pointers_are_those_of_the_first_missing_note(with_schemas: Client) -> None:
    item = await with_schemas.add(type="bug", role="work")
    answer = await with_schemas("get_context", itemId=item)
    assert answer["gateStatus"] == {"canAdvance": False, "phase": "work", "missing": ["cause", "fix"]}
    assert (answer["guidancePointer"], answer["skillPointer"]) == ("Say why.", "root-cause")
    await write(with_schemas, item, "cause", "work")
    answer = await with_schemas("get_context", itemId=item)
    assert (answer["guidancePointer"], answer["skillPointer"]) == (None, "write-code")
    assert answer["noteProgress"] == {"filled": 1, "remaining": 1, "total": 2}
    await write(with_schemas, item, "fix", "work")
    answer = await with_schemas("get_context", itemId=item)
    assert answer["gateStatus"] == {"canAdvance": True, "phase": "work", "missing": []}
    assert answer["guidancePointer"] is None
    assert "skillPointer" not in answer
    assert (await with_schemas.advance(item, "start"))["applied"]


@pytest.mark.parametrize(
    ("fields", "can_advance", "progress"),
    [
        ({"role": "terminal", "type": "bug"}, False, None),
        ({"role": "terminal"}, False, None),
        ({"role": "blocked", "type": "bug"}, False, {"filled": 0, "remaining": 0, "total": 0}),
        ({"role": "review", "type": "bug"}, True, {"filled": 0, "remaining": 0, "total": 0}),
        ({"role": "work", "type": "free"}, True, {"filled": 0, "remaining": 0, "total": 0}),
        ({"role": "work"}, True, None),
    ],
)
async def test_progress_distinguishes_no_schema_from_an_empty_one(
    with_schemas: Client, fields: Json, can_advance: bool, progress: Json | None
) -> None:
    item = await with_schemas.add(**fields)
    answer = await with_schemas("get_context", itemId=item)
    assert answer["gateStatus"] == {"canAdvance": can_advance, "phase": fields["role"], "missing": []}
    assert answer["noteProgress"] == progress
    assert len(answer["schema"]) == (4 if fields.get("type") == "bug" else 0)


async def test_ancestors_come_on_request_root_first(tools: Client) -> None:
    ids = await tools.chain(3)
    assert "ancestors" not in (await tools("get_context", itemId=ids[3]))["item"]
    item = (await tools("get_context", itemId=ids[3], includeAncestors=True))["item"]
    assert item["depth"] == 3
    assert item["ancestors"] == [{"id": ids[n], "title": f"depth {n}", "depth": n} for n in range(3)]
    assert (await tools("get_context", itemId=ids[0], includeAncestors=True))["item"]["ancestors"] == []


@pytest.mark.every_store
async def test_a_claim_is_shown_with_its_holder_live_or_expired(tools: Client) -> None:
    item = await tools.add()
    assert "claimDetail" not in await tools("get_context", itemId=item)
    claim = await tools.claim("did:web:agent.example", item)
    fields = ("claimedBy", "claimedAt", "claimExpiresAt", "originalClaimedAt")
    shown = {field: claim[field] for field in fields}
    assert (await tools("get_context", itemId=item))["claimDetail"] == shown | {"isExpired": False}
    await lapse(tools, item)
    detail = (await tools("get_context", itemId=item))["claimDetail"]
    assert (detail["claimedBy"], detail["isExpired"]) == ("did:web:agent.example", True)
    assert await tools.next() == [item]  # puts expired claims back; the record stays on the item
    assert (await tools("get_context", itemId=item))["claimDetail"] == detail
    await tools.release("did:web:agent.example", item)
    assert "claimDetail" not in await tools("get_context", itemId=item)


async def test_the_item_overrides_since_and_blanks_count_as_absent(tools: Client) -> None:
    item = await tools.add()
    assert (await tools("get_context", itemId=item, since="nonsense"))["mode"] == "item"
    assert (await tools("get_context", itemId="", since="2020-01-01T00:00:00Z"))["mode"] == "session-resume"
    assert (await tools("get_context", itemId=None, since=""))["mode"] == "health-check"


async def test_a_waiting_item_cannot_advance_and_shows_its_blockers(tools: Client) -> None:
    blocker, item = await tools.add(), await tools.add()
    await tools.link(blocker, item)
    waits = {"fromItemId": blocker, "currentRole": "queue", "requiredRole": "terminal"}
    gate = {"canAdvance": False, "phase": "queue", "missing": [], "blockers": [waits]}
    assert (await tools("get_context", itemId=item))["gateStatus"] == gate
    await tools.move(blocker, "complete")
    assert (await tools("get_context", itemId=item))["gateStatus"] == {
        "canAdvance": True,
        "phase": "queue",
        "missing": [],
    }
