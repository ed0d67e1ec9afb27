"""get_next_status: recommendations for each role, without changes."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store
from tests.items.client import Client, Json
from tests.support.between import after

pytestmark = pytest.mark.anyio

REVIEWED = {"notes": [{"key": "check", "role": "review"}]}
PLAIN = {"notes": [{"key": "plan", "role": "queue", "required": True}]}
DECLARED = {"work_item_schemas": {"reviewed": REVIEWED, "plain": PLAIN}, "traits": {"seen": REVIEWED}}


@pytest.fixture
def with_schemas(store: Store, project: str) -> Client:
    return Client(store, project, msgspec.convert(DECLARED, Settings))


def ready(role: str, next_role: str, position: str) -> Json:
    return {
        "recommendation": "Ready",
        "currentRole": role,
        "nextRole": next_role,
        "trigger": "start",
        "progressionPosition": position,
    }


TERMINAL = {
    "recommendation": "Terminal",
    "currentRole": "terminal",
    "reason": "Item is terminal. Use 'reopen' trigger to move back to queue, or 'cancel' if already cancelled.",
}
BLOCKED = {
    "recommendation": "Blocked",
    "currentRole": "blocked",
    "suggestion": "Use 'resume' trigger to return to previous role",
}
CREATED_BLOCKED = BLOCKED | {"suggestion": "Item was created as blocked. Use 'resume' trigger to move it to queue"}


@pytest.mark.parametrize(
    ("role", "fields", "expected"),
    [
        ("queue", {}, ready("queue", "work", "1/3")),
        ("work", {}, ready("work", "terminal", "2/3")),
        ("review", {}, ready("review", "terminal", "3/4")),
        ("queue", {"type": "plain"}, ready("queue", "work", "1/3")),
        ("queue", {"type": "reviewed"}, ready("queue", "work", "1/4")),
        ("work", {"tags": "other,reviewed"}, ready("work", "review", "2/4")),
        ("work", {"type": "plain", "traits": "seen"}, ready("work", "review", "2/4")),
        ("review", {"type": "reviewed"}, ready("review", "terminal", "3/4")),
        ("blocked", {}, CREATED_BLOCKED),
        ("terminal", {"type": "reviewed"}, TERMINAL),
    ],
)
async def test_the_next_transition_follows_from_role_and_schema(
    with_schemas: Client, role: str, fields: Json, expected: Json
) -> None:
    item = await with_schemas.add(role=role, **fields)
    assert await with_schemas("get_next_status", itemId=item) == expected


async def test_start_leads_to_the_recommended_role(with_schemas: Client) -> None:
    item = await with_schemas.add(type="reviewed")
    for _ in range(3):
        announced = (await with_schemas("get_next_status", itemId=item))["nextRole"]
        assert (await with_schemas.advance(item, "start"))["newRole"] == announced
    assert await with_schemas("get_next_status", itemId=item) == TERMINAL


@pytest.mark.every_store
async def test_unsatisfied_blockers_are_named_with_their_thresholds(tools: Client) -> None:
    done, started, waiting, item = await tools.add_many(4)
    await tools.link(done, item)
    await tools.link(started, item, unblockAt="work")
    await tools.link(item, waiting, type="IS_BLOCKED_BY", unblockAt="review")
    await tools.link(item, done, type="RELATES_TO")
    await tools.move(done, "complete")

    def blocker(from_item: str, needed: str) -> Json:
        return {"fromItemId": from_item, "currentRole": "queue", "requiredRole": needed}

    answer = await tools("get_next_status", itemId=item)
    named = {entry["fromItemId"]: entry for entry in answer.pop("blockers")}
    assert answer == {"recommendation": "Blocked", "currentRole": "queue"}
    assert named == {started: blocker(started, "work"), waiting: blocker(waiting, "review")}
    await tools.move(started, "start")
    only = {"recommendation": "Blocked", "currentRole": "queue", "blockers": [blocker(waiting, "review")]}
    assert await tools("get_next_status", itemId=item) == only
    await tools.move(waiting, "complete")
    assert await tools("get_next_status", itemId=item) == ready("queue", "work", "1/3")


async def test_a_blocked_blocker_is_unsatisfied_for_any_threshold(tools: Client) -> None:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item, unblockAt="queue")
    assert (await tools("get_next_status", itemId=item))["recommendation"] == "Ready"
    await tools.move(blocker, "hold")
    (entry,) = (await tools("get_next_status", itemId=item))["blockers"]
    assert entry == {"fromItemId": blocker, "currentRole": "blocked", "requiredRole": "queue"}


@pytest.mark.parametrize(("role", "expected"), [("blocked", CREATED_BLOCKED), ("terminal", TERMINAL)])
async def test_role_is_checked_before_dependencies(tools: Client, role: str, expected: Json) -> None:
    blocker = await tools.add()
    item = await tools.add(role=role)
    await tools.link(blocker, item)
    assert await tools("get_next_status", itemId=item) == expected


@pytest.mark.parametrize("trigger", ["block", "hold"])
async def test_the_suggestion_for_a_blocked_item_works(tools: Client, trigger: str) -> None:
    item, created = await tools.add(), await tools.add(role="blocked")
    await tools.move(item, trigger)
    assert await tools("get_next_status", itemId=item) == BLOCKED
    assert (await tools.move(item, "resume"))["newRole"] == "queue"
    assert await tools("get_next_status", itemId=created) == CREATED_BLOCKED
    assert (await tools.move(created, "resume"))["newRole"] == "queue"


async def test_missing_notes_are_not_checked(with_schemas: Client) -> None:
    item = await with_schemas.add(type="plain")
    assert not (await with_schemas.advance(item, "start"))["applied"]
    assert await with_schemas("get_next_status", itemId=item) == ready("queue", "work", "1/3")


async def test_reads_change_nothing(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    before = await tools.get(item)
    await tools("get_next_status", itemId=item)
    assert await tools.get(item) == before


@pytest.mark.every_store
async def test_all_of_many_blockers_are_named_once(tools: Client) -> None:
    sources = await tools.add_many(450)
    hub = await tools.add()
    await tools.link_all((source, hub) for source in sources)
    blockers = (await tools("get_next_status", itemId=hub))["blockers"]
    assert sorted(entry["fromItemId"] for entry in blockers) == sorted(sources)


async def test_the_answer_is_a_consistent_snapshot(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = await tools.add_many(450)
    hub = await tools.add()
    await tools.link_all((source, hub) for source in sources)

    async def change() -> None:
        await tools.unlink(toItemId=hub, deleteAll=True)
        await tools.move(hub, "start")

    before = await tools("get_next_status", itemId=hub)
    after(monkeypatch, tools.store, 1, change)
    answer = await tools("get_next_status", itemId=hub)
    assert answer in (before, await tools("get_next_status", itemId=hub))
