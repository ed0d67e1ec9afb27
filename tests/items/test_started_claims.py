"""claim_item that starts what it gets, and ends what the agent has done, in the same step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.tool import Criticality, Delivery
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.results import client_of
from tests.items.selectors import call_of
from tests.support.contracts import toolsets
from tests.support.schemas import decoded

pytestmark = pytest.mark.anyio
SELECTOR: list[Json] = [{"selector": {}}]
REVIEWED = {"work_item_schemas": {"reviewed": {"notes": [{"key": "verdict", "role": "review", "required": True}]}}}
GATED = {"work_item_schemas": {"gated": {"notes": [{"key": "plan", "role": "work", "required": True}]}}}


async def started(tools: Client, agent: str = "agent", **more: Any) -> Json:
    """An item that is claimed and started in one call; its claim."""
    return only(await tools.claims(agent, SELECTOR, start=True, **more))


def only(answer: Json) -> Json:
    (claim,) = answer["claimResults"]
    return dict(claim)


def done(claim: Json, **more: Any) -> Json:
    return {"itemId": claim["itemId"], "fenceToken": claim["fenceToken"], "reason": "done", **more}


def untouched(claim: Json) -> Json:
    return {"itemId": claim["itemId"], "fenceToken": claim["fenceToken"], "reason": "untouched"}


async def history(tools: Client, item: str) -> list[tuple[str, str, str]]:
    """Role before, role after and trigger of each transition, oldest first."""
    found = (await tools.get(item))["transitions"]
    return [(each["fromRole"], each["toRole"], each["trigger"]) for each in reversed(found)]


@pytest.mark.every_store
async def test_a_claim_starts_its_item_as_advance_item_does(tools: Client) -> None:
    parent, other_parent = await tools.add_many(2)
    item, other = await tools.add(parentId=parent), await tools.add(parentId=other_parent)
    await tools.update(parent, title="above")
    await tools.update(other_parent, title="above")
    claim = only(await tools.claims("agent", [{"itemId": item}], start=True))
    await tools.claim("other", other)
    alike = await tools.advance(other, "start", "other")
    for result, named, above in ((claim["start"], item, parent), (alike, other, other_parent)):
        assert result.pop("itemId") == named
        assert result["cascadeEvents"][0].pop("itemId") == above
    assert claim["start"] == {name: value for name, value in alike.items() if name != "actor"}
    assert await tools.role(item) == await tools.role(parent) == "work"


async def test_a_claim_by_selector_starts_what_it_finds_and_shows_it_in_work(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools, include=["item"])
    assert (claim["itemId"], claim["role"], claim["item"]["role"]) == (item, "work", "work")
    assert claim["start"]["applied"]


async def test_a_claim_starts_nothing_unless_it_says_so(tools: Client) -> None:
    item = await tools.add()
    assert "start" not in only(await tools.claims("agent", SELECTOR))
    assert await tools.role(item) == "queue"


async def test_a_takeover_is_begun_again_in_its_role(tools: Client) -> None:
    item = await tools.add()
    await started(tools, "gone")
    await tools.release("gone", item)
    claim = await started(tools)
    assert (claim["takeover"], claim["start"]["applied"], claim["start"]["newRole"]) == (True, True, "work")
    # The first start was this one's: a further one goes on.
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "terminal"


async def test_a_refused_start_leaves_the_claim(store: Store, project: str) -> None:
    needs = {"work_item_schemas": {"gated": {"notes": [{"key": "plan", "role": "queue", "required": True}]}}}
    tools = client_of(store, project, needs)
    item = await tools.add(type="gated")
    claim = await started(tools)
    assert (claim["outcome"], claim["start"]["applied"]) == ("success", False)
    assert [note["key"] for note in claim["start"]["missingNotes"]] == ["plan"]
    assert await tools.role(item) == "queue"
    blocker, waiting = await tools.add_many(2)
    await tools.link(blocker, waiting)
    claim = only(await tools.claims("agent", [{"itemId": waiting}], start=True))
    assert (claim["outcome"], claim["ready"], claim["start"]["applied"]) == ("success", False, False)
    assert [each["fromItemId"] for each in claim["start"]["blockers"]] == [blocker]


@pytest.mark.parametrize("role", ["work", "review", "blocked"])
async def test_what_is_no_new_work_is_not_started_and_the_answer_says_so(tools: Client, role: str) -> None:
    item = await tools.add(role=role)
    claim = only(await tools.claims("agent", [{"itemId": item}], start=True))
    assert (claim["outcome"], claim["start"]["applied"]) == ("success", False)
    assert claim["start"]["error"] == (
        "Cannot apply 'start': it is no new work: a claim starts what is in queue, and what another agent has left"
    )
    assert await tools.role(item) == role


async def test_a_call_that_starts_makes_its_releases_first_and_may_get_the_same_item(tools: Client) -> None:
    item = await tools.add(retryBackoffSeconds=0)
    claim = await started(tools)
    failed = {"itemId": item, "fenceToken": claim["fenceToken"], "reason": "failed", "detail": "why"}
    call = call_of("agent", releases=[failed], start=True, include=["item"])
    answer = await tools("claim_item", **call)
    assert answer["releaseResults"][0]["outcome"] == "success"
    again = only(answer)
    assert (again["itemId"], again["takeover"], again["item"]["attempts"]["count"]) == (item, True, 1)
    assert await tools("claim_item", **call) == answer


async def test_only_the_item_held_in_the_end_is_started(tools: Client) -> None:
    first, second = await tools.add_many(2)
    answer = await tools.claims("agent", [{"itemId": first}, {"itemId": second}], start=True)
    assert ["start" in claim for claim in answer["claimResults"]] == [False, True]
    assert [await tools.role(item) for item in (first, second)] == ["queue", "work"]


async def test_a_renewal_starts_nothing(tools: Client) -> None:
    item = await tools.add()
    claim = await tools.claim("agent", item)
    renewal = [{"itemId": item, "fenceToken": claim["fenceToken"]}]
    assert "start" not in only(await tools.claims("agent", renewal, start=True))
    assert await tools.role(item) == "queue"


async def test_the_step_that_hands_an_item_over_starts_it(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent", start=True, include=["item"])
    item = await other.add()
    claim = await call.claim()
    assert (claim["itemId"], claim["start"]["applied"], claim["item"]["role"]) == (item, True, "work")
    assert await history(other, item) == [("queue", "work", "start")]


async def test_a_handed_item_is_started_by_the_configuration_of_who_waits(fronts: Fronts) -> None:
    labelled = await fronts.make(settings=msgspec.convert({"status_labels": {"start": "mine"}}, Settings))
    other = await fronts.make(settings=msgspec.convert({"status_labels": {"start": "theirs"}}, Settings))
    call = await labelled.park("agent", start=True)
    first = await other.add()
    assert (await call.claim())["start"]["statusLabel"] == "mine"
    second = await other.add()
    await other.claims("other", [{"itemId": second}], start=True)
    assert [(await other.get(item))["statusLabel"] for item in (first, second)] == ["mine", "theirs"]


async def test_an_undelivered_item_is_queued_again_as_if_nobody_had_had_it(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    delivery = tools.delivery = Delivery()
    call = await tools.park("gone", start=True)
    item = await other.add(statusLabel="fresh")
    await call.answer()
    await delivery.end()
    assert await history(other, item) == [("queue", "work", "start"), ("work", "queue", "untouched")]
    assert (await other.get(item))["statusLabel"] == "fresh"
    assert "takeover" not in only(await other.claims("agent", SELECTOR))


# --- releases that end an item ----------------------------------------------------------------


@pytest.mark.every_store
async def test_an_item_is_ended_before_the_next_is_claimed_which_that_may_make_ready(tools: Client) -> None:
    first, second = await tools.add_many(2)
    await tools.link(first, second)
    claim = await started(tools)
    answer = await tools.claims(
        "agent", SELECTOR, releases=[done(claim, result={"a": 1}, summary="went well")], start=True, include=["results"]
    )
    (released,) = answer["releaseResults"]
    assert (released["outcome"], released["transition"]["newRole"]) == ("success", "terminal")
    assert released["transition"]["summary"] == "went well"
    assert [each["itemId"] for each in released["transition"]["unblockedItems"]] == [second]
    following = only(answer)
    assert (following["itemId"], following["start"]["applied"]) == (second, True)
    assert following["results"] == [{**following["results"][0], "itemId": first, "result": {"a": 1}}]
    assert (await tools.get(first)).get("claim") is None
    assert (await audit(tools.store, tools.project)).differences == []


async def test_an_item_is_ended_where_there_is_no_next(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools)
    answer = await tools.claims("agent", SELECTOR, releases=[done(claim)], start=True)
    assert (answer["releaseResults"][0]["outcome"], only(answer)["outcome"]) == ("success", "no_match")
    assert await tools.role(item) == "terminal"
    assert (await tools("get_context", itemId=item)).get("claimDetail") is None
    answer = await tools.claims("agent", [{"itemId": item}], releases=[done(claim)])
    assert answer["releaseResults"][0]["outcome"] == "not_claimed_by_you"
    assert only(answer)["outcome"] == "release_refused"


def test_calls_that_end_items_are_shed_last() -> None:
    tool = {each.name: each for each in toolsets()["items"].tools}["claim_item"]

    def weight(*released: str) -> Criticality:
        releases = [{"itemId": fresh_id(), "reason": reason} for reason in released]
        return tool.weigh(decoded(tool, call_of("agent", releases=releases)))

    assert (weight(), weight("done"), weight("failed")) == (Criticality.NORMAL, *[Criticality.CRITICAL] * 2)


async def test_a_release_without_claims_ends_an_item_too(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools)
    answer = await tools.claims("agent", [], releases=[done(claim)])
    assert answer["releaseResults"][0]["transition"]["applied"]
    assert await tools.role(item) == "terminal"


async def test_an_item_is_ended_and_then_the_call_waits(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await other.add()
    claim = await started(tools)
    call = await tools.park("agent", releases=[done(claim, result="text")], start=True)
    assert await other.role(item) == "terminal"
    await tools.kill()
    # The same call over another front-end waits on, and ends nothing again.
    again = other.begin(
        "agent", request_id=call.request_id, releases=[done(claim, result="text")], start=True, wait_ms=60_000
    )
    following = await other.add()
    answer = await again.answer()
    assert only(answer)["itemId"] == following
    assert only(answer)["start"]["applied"]
    assert answer["releaseResults"][0]["transition"]["applied"]
    assert len(await history(other, item)) == 2


async def test_a_call_that_nobody_waits_for_any_more_is_answered_with_what_it_has_ended(fronts: Fronts) -> None:
    """The place of a parked call goes some time after its front-end; the end is known for longer."""
    tools, other = await fronts.pair()
    await other.add()
    claim = await started(tools)
    call = await tools.park("agent", releases=[done(claim)])
    await call.leave()
    await tools.wait_for_nobody()
    again = await other("claim_item", **call_of("agent", request_id=call.request_id, releases=[done(claim)]))
    assert (again["releaseResults"][0]["outcome"], only(again)["outcome"]) == ("success", "no_match")


async def test_a_call_that_gave_its_item_back_is_repeated_with_what_it_has_ended(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    await other.add()
    claim = await started(tools)
    delivery = tools.delivery = Delivery()
    call = await tools.park("agent", releases=[done(claim)], start=True)
    item = await other.add()
    await call.answer()
    await delivery.end()
    call_again = call_of("agent", request_id=call.request_id, releases=[done(claim)], start=True)
    again = await other("claim_item", **call_again)
    assert (again["releaseResults"][0]["outcome"], only(again)["itemId"]) == ("success", item)


@pytest.mark.parametrize("reason", ["done", "handed_back"])
@pytest.mark.parametrize("known", [True, False])
async def test_a_wait_that_is_forgotten_is_answered_with_its_releases(fronts: Fronts, reason: str, known: bool) -> None:
    tools, other = await fronts.pair()
    await other.add()
    claim = await started(tools)
    released = {**done(claim), "reason": reason}
    call = await tools.park("agent", {"tags": "none"}, releases=[released], wait_ms=500)
    await tools.store.command("HSET", keys.waiter.key(tools.project, call.name), "u", "1")
    await other.add(tags="none")  # sees that its time is over
    if not known:
        await tools.store.command("DEL", keys.request.key(tools.project, call.name))
    answer = await call.answer()
    outcome = "success" if known else "not_claimed_by_you"
    assert (answer["releaseResults"][0]["outcome"], only(answer)["outcome"]) == (outcome, "no_match")


async def test_a_refused_end_claims_nothing_in_a_call_of_several_steps(store: Store, project: str) -> None:
    """Claims that expire make the search go on in a further step."""
    tools = client_of(store, project, GATED)
    await tools.add(type="gated")
    claim = await started(tools)
    gone = await tools.add(maxAttempts=1)
    waiting = [item for _ in range(12) for item in await tools.add_many(50)]
    for first in range(0, len(waiting), 100):
        edges = [{"fromItemId": gone, "toItemId": item, "unblockAt": "work"} for item in waiting[first : first + 100]]
        await tools("manage_dependencies", operation="create", dependencies=edges)
    await tools.claims("gone", [{"itemId": gone}], start=True)
    await lapse(tools, gone)
    answer = await tools.claims("agent", SELECTOR, releases=[done(claim)], start=True)
    assert only(answer)["outcome"] == "release_refused"


async def test_a_refused_end_claims_nothing(store: Store, project: str) -> None:
    tools = client_of(store, project, GATED)
    item = await tools.add(type="gated")
    claim = await started(tools)
    following = await tools.add()
    for claims in (SELECTOR, [{"itemId": following}]):
        answer = await tools.claims("agent", claims, releases=[done(claim, result="lost?")], start=True)
        assert only(answer)["outcome"] == "release_refused"
        (released,) = answer["releaseResults"]
        assert (released["outcome"], released["transition"]["applied"]) == ("refused", False)
        assert [note["key"] for note in released["transition"]["missingNotes"]] == ["plan"]
        assert released["error"] == released["transition"]["error"]
    assert [await tools.role(each) for each in (item, following)] == ["work", "queue"]
    assert (await tools("get_context", itemId=item))["claimDetail"]["claimedBy"] == "agent"
    assert (await tools("query_notes", operation="list", itemId=item))["notes"] == []


async def test_an_end_with_the_fence_of_an_earlier_claim_is_refused(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools)
    await tools.release("agent", item)
    again = await started(tools)
    answer = await tools.claims("agent", SELECTOR, releases=[done(claim)])
    assert (answer["releaseResults"][0]["outcome"], only(answer)["outcome"]) == ("stale_fence", "release_refused")
    assert await tools.role(item) == "work"
    answer = await tools.claims("other", SELECTOR, releases=[done(again)])
    assert answer["releaseResults"][0]["outcome"] == "not_claimed_by_you"


async def test_an_item_with_a_review_goes_there_with_its_result_and_its_claim_ends(store: Store, project: str) -> None:
    tools = client_of(store, project, REVIEWED)
    item = await tools.add(type="reviewed")
    claim = await started(tools)
    answer = await tools.claims("agent", [], releases=[done(claim, result="text")])
    assert answer["releaseResults"][0]["transition"]["newRole"] == "review"
    assert (await tools("get_context", itemId=item)).get("claimDetail") is None
    (note,) = (await tools("query_notes", operation="list", itemId=item))["notes"]
    assert (note["key"], note["body"]) == ("result", "text")


async def test_an_item_in_queue_is_started_before_it_is_ended(tools: Client) -> None:
    item = await tools.add()
    claim = await tools.claim("agent", item)
    await tools.claims("agent", [], releases=[done(claim)])
    assert await history(tools, item) == [("queue", "work", "start"), ("work", "terminal", "complete")]


async def test_usage_of_an_item_that_is_done_is_added_once(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools)
    call = call_of("agent", None, releases=[done(claim, usage={"inputTokens": 7})])
    for _ in range(2):
        await tools("claim_item", **call)
    assert (await tools.get(item))["usage"]["own"]["inputTokens"] == 7


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ({"reason": "failed", "result": "text"}, "releases[0].result: goes with the reason done"),
        ({"reason": "untouched", "summary": "text"}, "releases[0].summary: goes with the reason done"),
        ({"reason": "done", "detail": "text"}, "releases[0].detail: goes with a reason"),
        ({"reason": "done", "summary": "x" * 2001}, "releases[0].summary: must be at most 2000 characters"),
        ({"reason": "done", "result": "x" * 262_145}, "releases[0].result: must be at most 262,144 bytes"),
        ({"reason": "ended"}, "releases[0].reason: 'ended' is not one of"),
    ],
)
async def test_what_does_not_go_with_a_reason_is_refused(tools: Client, release: Json, problem: str) -> None:
    item = await tools.add()
    claim = await started(tools)
    call = {"requestId": fresh_id(), "actor": actor("agent"), "claims": [], "releases": [{"itemId": item, **release}]}
    assert (await tools.refusal("claim_item", **call)).message.startswith(problem)
    two = [done(claim), {"itemId": fresh_id(), "reason": "DONE"}]
    message = (await tools.refusal("claim_item", **{**call, "releases": two})).message
    assert message == "releases: only one can have the reason done: an agent holds one item"
    assert await tools.role(item) == "work"


# --- items that are handed back untouched -----------------------------------------------------


async def test_an_untouched_item_goes_back_to_the_role_and_label_before_its_start(tools: Client) -> None:
    parent = await tools.add()
    item = await tools.add(parentId=parent, statusLabel="fresh")
    claim = only(await tools.claims("agent", [{"itemId": item}], start=True))
    answer = await tools.claims("agent", [], releases=[untouched(claim)])
    assert answer["releaseResults"][0]["outcome"] == "success"
    shown = await tools.get(item)
    assert (shown["role"], shown["statusLabel"], shown.get("attempts")) == ("queue", "fresh", None)
    assert await history(tools, item) == [("queue", "work", "start"), ("work", "queue", "untouched")]
    assert await tools.role(parent) == "work"
    following = only(await tools.claims("other", [{"selector": {"parentId": parent}}], start=True))
    assert (following["itemId"], following.get("takeover")) == (item, None)
    assert (await audit(tools.store, tools.project)).differences == []


async def test_an_untouched_item_has_the_label_that_somebody_has_given_it_since(tools: Client) -> None:
    item = await tools.add(statusLabel="fresh")
    claim = await started(tools)
    await tools.update(item, statusLabel="new")
    await tools.claims("agent", [], releases=[untouched(claim)])
    assert (await tools.role(item), (await tools.get(item))["statusLabel"]) == ("queue", "new")


async def test_an_untouched_takeover_stays_one_for_the_next(tools: Client) -> None:
    item = await tools.add()
    await started(tools, "gone")
    await tools.release("gone", item)
    claim = await started(tools)
    await tools.claims("agent", [], releases=[untouched(claim)])
    assert await tools.role(item) == "work"
    assert (await started(tools, "other"))["takeover"]


async def test_an_item_that_was_touched_is_handed_back_as_it_is(tools: Client) -> None:
    item = await tools.add()
    claim = await started(tools)
    await tools.advance(item, "block", "agent")
    await tools.advance(item, "resume", "agent")
    await tools.claims("agent", [], releases=[untouched(claim)])
    assert await tools.role(item) == "work"
    assert (await started(tools, "other"))["takeover"]


async def test_a_start_under_an_earlier_claim_is_not_taken_back(tools: Client) -> None:
    item = await tools.add()
    await started(tools)
    await tools.release("agent", item)
    claim = await tools.claim("other", item)
    await tools.claims("other", [], releases=[untouched(claim)])
    assert await tools.role(item) == "work"
