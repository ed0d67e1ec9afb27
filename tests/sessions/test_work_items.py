"""Sessions that are bound to a work item: claims shown and lost, take-over, and events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.definitions import Definitions
from coordinator.store import Store, keys
from coordinator.toolsets.metrics import CLAIM_CONFLICTS
from tests.items.client import Client
from tests.items.moments import fence_of, lapse
from tests.sessions import lab
from tests.sessions.client import Answer, Sessions, fresh_id
from tests.sessions.conftest import Make
from tests.sessions.shown import forged, payload, unsigned
from tests.support.counts import counted

pytestmark = pytest.mark.anyio


@pytest.fixture
def items(store: Store, project: str) -> Client:
    """The items toolset on the same project."""
    return Client(store, project)


@pytest.fixture
async def item(items: Client) -> str:
    """A work item that worker-1 has claimed."""
    item = await items.add("to be done", role="work")
    assert (await items.claim("worker-1", item))["outcome"] == "success"
    return item


@pytest.fixture
async def fence(items: Client, item: str) -> int:
    """The fence of that claim."""
    return await fence_of(items, item)


async def bind(sessions: Sessions, item: str, agent: str = "worker-1", **more: Any) -> Answer:
    return await sessions.attempt("start_session", **{"agent_id": agent, "workflow_id": "lab", "item_id": item} | more)


async def status(sessions: Sessions, token: str) -> Answer:
    return await sessions("get_workflow_status", session_token=token)


async def prepared(sessions: Sessions, item: str) -> str:
    """The token of worker-1's session of the item, in the activity prepare."""
    token = (await bind(sessions, item)).token
    return (await sessions("next_activity", session_token=token, activity_id="prepare")).token


async def yielded(sessions: Sessions, item: str) -> str:
    """The handle of the pending checkpoint go of that session."""
    token = await prepared(sessions, item)
    return (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token


async def take_over(items: Client, item: str, agent: str = "worker-2") -> int:
    """The item's claim expires and another agent claims it; the new fence."""
    await lapse(items, item)
    claimed = await items.claim(agent, item)
    assert claimed["outcome"] == "success"
    return int(claimed["fenceToken"])


async def test_a_session_of_another_fleet_can_be_bound_as_it_is_adopted(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    foreign = forged(unsigned(await sessions.at("lab", "prepare")), sid=fresh_id())
    refused = await bind(sessions, item, "worker-2", session_token=foreign)
    assert refused.error == "not_claim_holder"
    assert (await sessions.refusal("get_trace", session_token=foreign)).error == "invalid_session_token"
    answer = await bind(sessions, item, session_token=foreign)
    assert (answer["adopted"], answer["work_item"]["fence_token"]) == (True, fence)
    assert payload(answer.token)["act"] == "prepare"
    # From then on it advances only under the claim, and another agent resumes it by the item.
    await take_over(items, item)
    moved = await sessions.refusal("next_activity", session_token=answer.token, activity_id="report")
    assert moved.error == "not_claim_holder"
    again = await bind(sessions, item, "worker-2", workflow_id=None)
    assert payload(again.token)["sid"] == payload(foreign)["sid"]


async def test_a_bound_session_shows_its_claim(sessions: Sessions, item: str, fence: int) -> None:
    answer = await bind(sessions, item)
    assert answer["work_item"] | {"claim_expires_at": ""} == {
        "item_id": item, "fence_token": fence, "claim_live": True, "claimed_by": "worker-1", "claim_expires_at": ""
    }  # fmt: skip
    assert answer["work_item"]["claim_expires_at"].endswith("Z")
    assert "inherited" not in answer
    shown = await status(sessions, answer.token)
    assert shown["work_item"] == answer["work_item"]
    moved = await sessions("next_activity", session_token=shown["session_token"], activity_id="prepare")
    assert payload(moved.token)["act"] == "prepare"


async def test_binding_requires_a_live_claim_of_the_actor(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    free = await items.add("free")
    for wanted, code, words in (
        (await bind(sessions, fresh_id()), "RESOURCE_NOT_FOUND", "no such work item"),
        (await bind(sessions, free), "not_claim_holder", "'worker-1' holds no live claim"),
        (await bind(sessions, item, "worker-2"), "not_claim_holder", "claimed by another agent than 'worker-2'"),
        (await bind(sessions, item, actor={"id": "x", "kind": "subagent"}), "not_claim_holder", "agent than 'x'"),
        (await bind(sessions, item, fence_token=fence + 1), "stale_fence", "fence_token: "),
    ):
        assert wanted.error == code
        assert words in wanted.text
    await lapse(items, item)
    assert (await bind(sessions, item)).error == "not_claim_holder"
    assert await sessions.store.command("EXISTS", keys.session_item.key(sessions.project, item.replace("-", ""))) == 0


async def test_a_token_does_not_replace_a_claim(sessions: Sessions, items: Client, item: str, fence: int) -> None:
    """With both, the error is about the claim, as without a token, and the session is unchanged."""
    bound = await bind(sessions, item)
    loose = await sessions.start("lab")
    await lapse(items, item)
    for token in (bound.token, loose):
        refused = await bind(sessions, item, session_token=token)
        assert refused.error == "not_claim_holder"
        assert "'worker-1' holds no live claim" in refused.text
    assert (await status(sessions, bound.token))["work_item"]["fence_token"] == fence
    assert "work_item" not in (await status(sessions, loose)).result


async def test_the_actor_may_differ_from_the_agent(sessions: Sessions, item: str, fence: int) -> None:
    answer = await bind(sessions, item, "inner-agent", actor={"id": "worker-1", "kind": "SubAgent"}, fence_token=fence)
    assert answer["work_item"]["claimed_by"] == "worker-1"
    assert payload(answer.token)["aid"] == "inner-agent"


async def test_a_session_advances_only_under_its_claim(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    handle = await yielded(sessions, item)
    await lapse(items, item)
    shown = await status(sessions, handle)
    assert shown["work_item"] == {"item_id": item, "fence_token": fence, "claim_live": False}
    # A user's decision is recorded although nobody holds the item.
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("resume_checkpoint", {}),
        ("yield_checkpoint", {"checkpoint_id": "maybe"}),
        ("next_activity", {"activity_id": "report"}),
    )
    for name, more in calls:
        refused = await sessions.refusal(name, session_token=answer.token, **more)
        assert refused.error == "not_claim_holder"
        assert "nobody holds it now" in refused.text
    assert (await sessions("get_activity", session_token=answer.token)).text
    # Claiming it again makes a new claim, which has to be shown.
    await items.claim("worker-1", item)
    refused = await sessions.refusal("resume_checkpoint", session_token=answer.token)
    assert "its holder has claimed it again" in refused.text
    again = await bind(sessions, item, session_token=answer.token)
    assert again["work_item"]["fence_token"] > fence
    assert (await sessions("resume_checkpoint", session_token=again.token))["resolved_option"] == "stop"


async def test_the_error_for_a_deleted_item_does_not_ask_for_a_claim(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    handle = await yielded(sessions, item)
    await items("manage_items", operation="delete", ids=[item])
    shown = await status(sessions, handle)
    assert shown["work_item"] == {"item_id": item, "fence_token": fence, "claim_live": False}
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("resume_checkpoint", {}),
        ("yield_checkpoint", {"checkpoint_id": "maybe"}),
        ("next_activity", {"activity_id": "report"}),
        ("start_session", {"session_token": unsigned(answer.token)}),
    )
    for name, more in calls:
        refused = await sessions.refusal(name, **{"session_token": answer.token} | more)
        assert refused.error == "not_claim_holder"
        assert "has been deleted" in refused.text


async def test_the_other_holder_of_the_item_is_not_disclosed(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    """Only get_context of the item discloses it."""
    token = await prepared(sessions, item)
    await take_over(items, item, "rival")
    shown = await status(sessions, token)
    expires = (await items("get_context", itemId=item))["claimDetail"]["claimExpiresAt"]
    bound = {"item_id": item, "fence_token": fence, "claim_live": False, "claim_expires_at": expires}
    assert shown["work_item"] == bound
    moved = await sessions.refusal("next_activity", session_token=token, activity_id="report")
    assert "somebody else holds it now" in moved.text
    for answer in (moved, await bind(sessions, item), await bind(sessions, item, session_token=token)):
        assert answer.error == "not_claim_holder"
        assert "rival" not in str(answer)
    assert f"expires at {expires}" in (await bind(sessions, item)).text
    assert "rival" not in str(shown)


async def test_taking_over_the_item_resumes_the_session(sessions: Sessions, items: Client, item: str) -> None:
    """Answered checkpoints are not asked again, and the previous agent has lost the session."""
    token = await prepared(sessions, item)
    first = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="maybe")).token
    first = (await sessions("respond_checkpoint", checkpoint_handle=first, option_id="fine")).token
    first = (await sessions("resume_checkpoint", session_token=first)).token
    handle = (await sessions("yield_checkpoint", session_token=first, checkpoint_id="go")).token
    await take_over(items, item)
    # The user answers worker-1's checkpoint, by its handle.
    old = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")

    answer = await bind(sessions, item, "worker-2", workflow_id=None)
    assert answer["inherited"] is True
    assert answer["work_item"]["claimed_by"] == "worker-2"
    carried = payload(answer.token)
    assert (carried["sid"], carried["act"], carried["aid"]) == (payload(token)["sid"], "prepare", "worker-2")
    shown = await sessions("get_workflow_status", session_token=answer.token, answered_checkpoints=True)
    known = [(one["checkpoint_id"], one["resolved_option"], one["resumed"]) for one in shown["answered_checkpoints"]]
    assert known == [("maybe", "fine", True), ("go", "stop", False)]
    resumed = await sessions("resume_checkpoint", session_token=shown["session_token"])
    assert (resumed["checkpoint_id"], resumed["resolved_option"]) == ("go", "stop")
    assert resumed["effect"]["transitionTo"] == "report"

    # If it yields them nevertheless, it gets the existing answers.
    for checkpoint, option in (("maybe", "fine"), ("go", "stop")):
        there = await sessions("yield_checkpoint", session_token=resumed.token, checkpoint_id=checkpoint)
        assert (there["status"], there["resolved_option"]) == ("answered", option)
        events = (await sessions("get_trace", session_token=there.token))["events"]
        assert events[-1]["name"] == "yield_checkpoint"
        assert payload(there.token)["seq"] > payload(resumed.token)["seq"]
    asked = await sessions("yield_checkpoint", session_token=resumed.token, checkpoint_id="maybe", ask_again=True)
    assert asked["status"] == "yielded"
    done = await sessions("respond_checkpoint", checkpoint_handle=asked.token, condition_not_met=True)
    fresh = await sessions("yield_checkpoint", session_token=done.token, checkpoint_id="maybe")
    assert fresh["status"] == "yielded"
    await sessions("respond_checkpoint", checkpoint_handle=fresh.token, option_id="fine")

    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("get_activity", {}),
        ("get_trace", {}),
        ("get_workflow_status", {}),
        ("resume_checkpoint", {}),
        ("yield_checkpoint", {"checkpoint_id": "go"}),
        ("next_activity", {"activity_id": "report"}),
        ("start_session", {"agent_id": "worker-1"}),
        ("start_session", {"agent_id": "innocent"}),
    )
    for shown_token in (token, first, handle, old.token):
        for name, more in calls:
            refused = await sessions.refusal(name, session_token=shown_token, **more)
            assert refused.error == "session_superseded"
    refused = await sessions.refusal("start_session", agent_id="worker-2", session_token=unsigned(handle))
    assert refused.error == "not_claim_holder"
    moved = await sessions("next_activity", session_token=done.token, activity_id="report", step_manifest=lab.PREPARED)
    assert moved.warnings == []


async def test_an_agent_that_lost_the_session_cannot_answer_the_new_holders_checkpoints(
    sessions: Sessions, items: Client, item: str
) -> None:
    lost = (await bind(sessions, item)).token
    lost = (await sessions("next_activity", session_token=lost, activity_id="prepare")).token
    await take_over(items, item)
    token = (await bind(sessions, item, "worker-2")).token
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("present_checkpoint", {}),
        ("respond_checkpoint", {"option_id": "stop"}),
    )
    for name, more in calls:
        assert (await sessions.refusal(name, session_token=lost, **more)).error == "session_superseded"
    # The same if it is taken over after the call has looked up the pending checkpoint.
    assert await sessions.presented(lost, handle) == "superseded"
    assert (await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="plain"))["resolved"] is True


async def test_an_answer_before_a_take_over_is_of_no_use_to_the_previous_agent(
    sessions: Sessions, items: Client, item: str
) -> None:
    token = (await bind(sessions, item)).token
    token = (await sessions("next_activity", session_token=token, activity_id="prepare")).token
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    await take_over(items, item)
    inherited = (await bind(sessions, item, "worker-2")).token
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="plain")
    assert (await sessions.refusal("get_skills", session_token=answer.token)).error == "session_superseded"
    # The new holder can resume from it, or ask again.
    resumed = await sessions("resume_checkpoint", session_token=inherited)
    again = await sessions("yield_checkpoint", session_token=resumed.token, checkpoint_id="go")
    assert again["status"] == "yielded"


async def test_another_visit_asks_everything_again(sessions: Sessions, items: Client, item: str) -> None:
    handle = await yielded(sessions, item)
    await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="plain")
    await take_over(items, item)
    token = (await bind(sessions, item, "worker-2")).token
    assert (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go"))["status"] == "answered"
    token = (await sessions("next_activity", session_token=token, activity_id="prepare")).token
    assert (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go"))["status"] == "yielded"


async def test_agents_let_in_by_a_holder_lose_the_session_with_it(sessions: Sessions, items: Client, item: str) -> None:
    outside = await sessions.start("lab", "orchestrator")
    bound = await bind(sessions, item, session_token=outside)
    inner = await sessions("start_session", agent_id="helper", session_token=bound.token)
    guest = await sessions("start_session", agent_id="guest", session_token=outside)
    await take_over(items, item)
    await bind(sessions, item, "worker-2")
    assert (await sessions.refusal("get_skills", session_token=inner.token)).error == "session_superseded"
    # Agents from before the first claim are not among them, nor those that they let in.
    for token in (outside, guest.token):
        assert (await sessions("get_skills", session_token=token)).token


async def test_the_number_of_recorded_holders_is_bounded(sessions: Sessions, item: str) -> None:
    token = (await bind(sessions, item)).token
    key = keys.session.key(sessions.project, payload(token)["sid"])
    holders = [*(f"helper-{n}" for n in range(499)), "worker-1"]
    await sessions.store.command("HSET", key, "hs", msgspec.msgpack.encode(holders))
    for _ in range(2):  # the second time it is already recorded
        await sessions("start_session", agent_id="one more", session_token=token)
    kept = msgspec.msgpack.decode(await sessions.store.command("HGET", key, "hs"))
    assert kept == [*holders[1:], "one more"]


async def test_an_earlier_holder_can_take_the_session_back(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    first = (await bind(sessions, item)).token
    await take_over(items, item)
    before = counted(CLAIM_CONFLICTS, "stale_fence")
    assert (await bind(sessions, item, fence_token=fence)).error == "not_claim_holder"
    assert (await bind(sessions, item)).error == "not_claim_holder"
    await bind(sessions, item, "worker-2")
    await take_over(items, item, "worker-1")
    assert (await bind(sessions, item, fence_token=fence)).error == "stale_fence"
    assert counted(CLAIM_CONFLICTS, "stale_fence") == before + 2, "the two that have shown the older fence"
    again = await bind(sessions, item)
    assert payload(again.token)["sid"] == payload(first)["sid"]
    assert (await sessions("get_skills", session_token=again.token)).token
    assert (await sessions.refusal("get_skills", session_token=first)).error == "session_superseded"


async def test_showing_the_claim_again_changes_nothing(sessions: Sessions, items: Client, item: str) -> None:
    first = await bind(sessions, item)
    await items.claim("worker-1", item)  # a heartbeat
    second = await bind(sessions, item)
    assert second["inherited"] is True
    assert payload(second.token)["sid"] == payload(first.token)["sid"]
    assert (await sessions("get_skills", session_token=first.token)).token


async def test_an_item_has_one_open_session_per_workflow(sessions: Sessions, item: str) -> None:
    first = await bind(sessions, item)
    other = await bind(sessions, item, workflow_id="bare")
    assert payload(other.token)["sid"] != payload(first.token)["sid"]
    assert payload((await bind(sessions, item)).token)["sid"] == payload(first.token)["sid"]
    last = await bind(sessions, item, workflow_id=None)
    assert payload(last.token)["wf"] == "lab"
    refused = await bind(sessions, item, session_token=await sessions.start("lab"))
    assert "another open session of this workflow" in refused.text
    elsewhere = await bind(sessions, item, session_token=first.token)
    assert elsewhere["inherited"] is True


async def test_of_racing_starts_for_an_item_one_makes_the_session(make: Make, item: str) -> None:
    bound = await asyncio.gather(*(bind(make(), item) for _ in range(5)))
    assert len({payload(answer.token)["sid"] for answer in bound}) == 1


async def test_a_session_belongs_to_one_item(sessions: Sessions, items: Client, item: str) -> None:
    bound = await bind(sessions, item)
    other = await items.add("other", role="work")
    await items.claim("worker-3", other)
    refused = await bind(sessions, other, "worker-3", session_token=bound.token)
    assert "is bound to another work item" in refused.text


async def test_a_completed_session_is_not_resumed_for_its_item(sessions: Sessions, item: str) -> None:
    token = (await bind(sessions, item)).token
    for activity in ("report", "__terminal__"):
        token = (await sessions("next_activity", session_token=token, activity_id=activity)).token
    assert (await status(sessions, token))["status"] == "completed"
    again = await bind(sessions, item)
    assert "inherited" not in again
    assert payload(again.token)["sid"] != payload(token)["sid"]


async def complete(sessions: Sessions, token: str, last: str) -> str:
    """The session's token after it was completed from an activity that may be its last."""
    for activity in (last, "__terminal__"):
        token = (await sessions("next_activity", session_token=token, activity_id=activity)).token
    return token


async def test_an_open_session_is_resumed_even_if_a_later_one_was_completed(sessions: Sessions, item: str) -> None:
    first = await bind(sessions, item, workflow_id="meta")
    await complete(sessions, (await bind(sessions, item, workflow_id="bare")).token, "only")
    again = await bind(sessions, item, workflow_id=None)
    assert again["inherited"] is True
    assert payload(again.token)["sid"] == payload(first.token)["sid"]


async def test_the_open_session_used_last_is_resumed(sessions: Sessions, item: str) -> None:
    bound = {name: (await bind(sessions, item, workflow_id=name)).token for name in ("annex", "lab", "meta")}
    await complete(sessions, (await bind(sessions, item, workflow_id="bare")).token, "only")
    for used in ("lab", "annex", "meta"):
        await sessions.store.command(
            "HSET", keys.session.key(sessions.project, payload(bound[used])["sid"]), "x", "5" if used == "lab" else "4"
        )
    assert payload((await bind(sessions, item, workflow_id=None)).token)["wf"] == "lab"


async def test_a_completed_session_does_not_reopen_beside_another_of_its_item(sessions: Sessions, item: str) -> None:
    first = await complete(sessions, (await bind(sessions, item)).token, "report")
    second = (await bind(sessions, item)).token
    refused = await sessions.refusal("next_activity", session_token=first, activity_id="prepare")
    assert refused.error == "VALIDATION_ERROR"
    assert refused.text.startswith("Cannot transition to 'prepare': the session is completed, and its work item has")
    assert (await status(sessions, first))["status"] == "completed"
    # Once that is completed too, the first one reopens and is resumed.
    await complete(sessions, second, "report")
    opened = (await sessions("next_activity", session_token=first, activity_id="prepare")).token
    assert (await status(sessions, opened))["status"] == "active"
    for workflow in ("lab", None):
        resumed = await bind(sessions, item, workflow_id=workflow)
        assert payload(resumed.token)["sid"] == payload(first)["sid"]


async def test_a_session_can_be_completed_again_beside_another_of_its_item(sessions: Sessions, item: str) -> None:
    """The answer was lost, and another session has begun meanwhile."""
    token = (
        await sessions("next_activity", session_token=(await bind(sessions, item)).token, activity_id="report")
    ).token
    for _ in range(2):
        done = await sessions("next_activity", session_token=token, activity_id="__terminal__")
        assert (await status(sessions, done.token))["status"] == "completed"
        await bind(sessions, item)


async def test_all_keys_of_a_session_are_renewed_with_use(sessions: Sessions, item: str) -> None:
    handle = await yielded(sessions, item)
    token = (await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")).token
    session = payload(token)["sid"]
    names = [family.key(sessions.project, session) for family in (keys.session, keys.session_trace)]
    names += [
        keys.session_answers.key(sessions.project, session),
        keys.session_item.key(sessions.project, item.replace("-", "")),
    ]

    async def used_after_hours() -> list[bool]:
        """The keys whose remaining hour a call extends."""
        for name in names:
            assert await sessions.store.command("PEXPIRE", name, 3_600_000) == 1
        await status(sessions, token)
        return [await sessions.store.command("PTTL", name) > 3_600_000 for name in names]

    # A renewal writes to all of them, so calls soon after one skip it.
    assert await used_after_hours() == [False] * 4
    await sessions.store.command("HSET", names[0], "x", "0")
    assert await used_after_hours() == [True] * 4
    assert await used_after_hours() == [False] * 4


async def test_session_changes_are_in_the_projects_events(
    sessions: Sessions, items: Client, item: str, fence: int
) -> None:
    handle = await yielded(sessions, item)
    await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")
    token = (await sessions("resume_checkpoint", session_token=handle)).token
    later = await take_over(items, item)
    token = (await bind(sessions, item, "worker-2")).token
    for activity in ("report", "__terminal__"):
        token = (await sessions("next_activity", session_token=token, activity_id=activity)).token
    found = []
    for _, flat in await sessions.store.command("XRANGE", keys.events.key(sessions.project), "-", "+"):
        event = {flat[n].decode(): flat[n + 1].decode() for n in range(0, len(flat), 2)}
        if event["i"] == payload(token)["sid"]:
            found.append({name: value for name, value in event.items() if name not in ("i", "w")})
    inner = item.replace("-", "")
    assert found == [
        {"k": "session_start", "by": "worker-1", "parent": ""},
        {"k": "session_bind", "item": inner, "f": str(fence), "a": "worker-1", "by": "worker-1"},
        {"k": "session_move", "from": "", "to": "prepare", "by": "worker-1"},
        {"k": "session_yield", "at": "prepare", "cp": "go", "by": "worker-1"},
        {"k": "session_answer", "at": "prepare", "cp": "go", "how": "option_id", "option": "stop", "by": "worker-1"},
        {"k": "session_resume", "at": "prepare", "by": "worker-1"},
        {"k": "session_takeover", "item": inner, "f": str(later), "a": "worker-2", "by": "worker-2"},
        {"k": "session_join", "by": "worker-2"},
        {"k": "session_move", "from": "prepare", "to": "report", "by": "worker-2"},
        {"k": "session_complete", "from": "report", "by": "worker-2"},
    ]


async def test_a_refusal_for_a_missing_workflow_leaves_the_session_with_its_holder(
    make: Make, items: Client, item: str, tmp_path: Path
) -> None:
    own = Definitions([lab.write(tmp_path)], 0)
    sessions = make(definitions=own)
    token = (await bind(sessions, item)).token
    await take_over(items, item)
    gone = (tmp_path / "lab").rename(tmp_path.parent / "away")
    own.refresh()
    key = keys.session.key(sessions.project, payload(token)["sid"])
    before = await sessions.store.command("HGETALL", key)
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"workflow_id": None},
        {"workflow_id": None, "session_token": token},
        {"workflow_id": None, "session_token": unsigned(token)},
    )
    for way in ways:
        refused = await bind(sessions, item, "worker-2", **way)
        assert refused.error == "RESOURCE_NOT_FOUND"
        assert refused.text == "Workflow not found: lab; there are: annex, bare, meta"
    refused = await sessions.refusal("start_session", session_token=token)
    assert refused.text == "Workflow not found: lab; there are: annex, bare, meta"
    assert await sessions.store.command("HGETALL", key) == before
    gone.rename(tmp_path / "lab")
    own.refresh()
    assert (await bind(sessions, item, "worker-2", workflow_id=None))["inherited"] is True
