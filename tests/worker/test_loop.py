"""What an agent does with items: take, note, finish, fail, ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import convert

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.settings.sections.work import SchemaSettings
from coordinator.store import Store
from coordinator.toolsets.metrics import CLAIM_CONFLICTS
from tests.items.client import LONG_MS, Json, counts, fresh_id
from tests.items.moments import lapse, next_ms
from tests.items.results import fan_in
from tests.support.counts import counted
from tests.worker.client import Agent, Tools, actor

pytestmark = pytest.mark.anyio


async def test_an_item_is_taken_started_and_done_in_two_calls(tools: Tools, agent: Agent) -> None:
    first = await tools.add("Write it", description="All of it.", tags="docs", summary="short")
    second = await tools.add("Publish it")
    await tools.link(first, second)
    got = await agent.next()
    assert got["item"] == {
        "id": first, "title": "Write it", "description": "All of it.", "tags": "docs", "summary": "short"
    }  # fmt: skip
    assert got.keys() == {"outcome", "item", "claimExpiresAt"}
    assert (await tools.role(first), await tools.holder(first)) == ("work", "agent-1")
    assert await agent.done(result={"pages": 3}, summary="written") == {"itemId": first, "role": "terminal"}
    assert (await tools.role(first), await tools.holder(first)) == ("terminal", "")
    assert json.loads((await tools.notes(first))["result"]) == {"pages": 3}
    history = (await tools.get(first))["transitions"]
    assert [(one["trigger"], one.get("summary"), one["actor"]["id"]) for one in history] == [
        ("complete", "written", "agent-1"), ("start", None, "agent-1")
    ]  # fmt: skip
    got = await agent.next()
    assert got["results"] == [{"itemId": first, "title": "Write it", "result": {"pages": 3}}]
    assert got["item"]["id"] == second


async def test_an_agent_gets_the_item_again_that_it_holds(tools: Tools, agent: Agent) -> None:
    item, other = await tools.add(priority="high"), await tools.add()
    assert await agent.take() == item
    again = await agent.next(tags="nothing-has-this", ttlSeconds=50_000)
    assert (again["item"]["id"], again["held"]) == (item, True)
    await agent.done()
    assert await agent.take() == other


async def test_where_there_is_nothing_to_do_it_says_so(tools: Tools, agent: Agent) -> None:
    assert await agent.next() == {"outcome": "none", "retryAfterMs": 1000}
    await tools.add(requires=["gpu"])
    await tools.forget_told(agent.name)
    assert (await agent.next())["heldBack"] == counts(capabilities=1)
    assert (await agent.next(capabilities=["gpu"]))["outcome"] == "item"


async def test_selection_is_that_of_items(tools: Tools, agent: Agent) -> None:
    parent = await tools.add("parent", tags="x")
    child = await tools.add("child", parentId=parent, type="task", tags="b")
    assert (await agent.next(tags="c"))["outcome"] == "none"
    assert (await agent.next(type="epic"))["outcome"] == "none"
    assert await agent.take(parentId=parent[:8], tags="a,b", type="task") == child
    await agent.done()
    failure = await agent.refused("work_next", parentId="0" * 32)
    assert (failure.code, failure.message) == ("RESOURCE_NOT_FOUND", "parentId: no such item")


async def test_each_call_about_an_item_renews_the_claim(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take(ttlSeconds=500)

    async def left() -> int:
        detail = (await tools("get_context", itemId=item))["claimDetail"]
        return int(detail["claimExpiresAt"] != before)

    before = (await tools("get_context", itemId=item))["claimDetail"]["claimExpiresAt"]
    await next_ms(tools.store)
    await agent.note("progress", "half")
    assert await left()
    before = (await tools("get_context", itemId=item))["claimDetail"]["claimExpiresAt"]
    await next_ms(tools.store)
    await agent.next()
    assert await left()


async def test_a_note_replaces_that_of_its_key(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    assert await agent.note("progress", "half") == {"itemId": item, "key": "progress"}
    await agent.note("progress", "all")
    assert await tools.notes(item) == {"progress": "all"}
    assert (await agent.next())["notes"] == [{"key": "progress", "body": "all"}]


async def test_a_failed_item_goes_to_the_next_agent_with_what_went_wrong(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    await agent.note("progress", "half")
    assert await agent.failed("no disk") == {"itemId": item, "role": "work"}
    got = await tools.worker("agent-2").next()
    assert (got["item"]["id"], got["takeover"], got["attempt"]) == (item, True, 2)
    assert got["failures"] == [{"ended": "failed", "detail": "no disk"}]
    assert got["notes"] == [{"key": "progress", "body": "half"}]


async def test_an_item_that_is_handed_back_counts_no_attempt(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    assert await agent.failed("going home", handBack=True) == {"itemId": item, "role": "work", "note": "handed-back"}
    got = await tools.worker("agent-2").next()
    assert "attempt" not in got
    assert got["notes"] == [{"key": "handed-back", "body": "going home"}]


async def test_too_many_failures_put_an_item_into_quarantine(store: Store, project: str) -> None:
    tools = Tools(store, project, Settings(request_deadline_ms=LONG_MS, attempts=Attempts(max=2, backoff_seconds=0)))
    item, agent = await tools.add(), tools.worker("a")
    await agent.take()
    assert (await agent.failed())["role"] == "work"
    await agent.take()
    assert await agent.failed() == {"itemId": item, "role": "blocked"}
    assert (await agent.next())["outcome"] == "none"


async def test_a_question_blocks_the_item_until_it_is_answered(tools: Tools, agent: Agent) -> None:
    item, other = await tools.add(priority="high"), await tools.add()
    await agent.take()
    assert await agent.ask("Red or blue?") == {"itemId": item, "role": "blocked", "note": "question-1"}
    assert await tools.holder(item) == ""
    assert await agent.take() == other
    await agent.done()
    assert (await agent.next())["outcome"] == "none"
    await tools.answer_question(item, "Blue.")
    got = await tools.worker("agent-2").next()
    assert got["questions"] == [{"question": "Red or blue?", "answer": "Blue."}]
    assert (got["item"]["id"], got["takeover"], "attempt" in got, "notes" in got) == (item, True, False, False)
    await tools.worker("agent-2").ask("Light or dark?")
    await tools.answer_question(item, "Dark.", 2)
    assert (await agent.next())["questions"][1:] == [{"question": "Light or dark?", "answer": "Dark."}]
    assert (await tools.get(item)).get("attempts") is None


async def test_abandoned_work_is_offered_first_and_its_agent_may_come_back(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    await lapse(tools, item, whole=True)
    assert await agent.note("progress", "late") == {"itemId": item, "key": "progress"}
    assert await tools.holder(item) == "agent-1"
    await lapse(tools, item, whole=True)
    assert (await tools.worker("agent-2").next())["takeover"]
    before = counted(CLAIM_CONFLICTS, "not_holder")
    for call in (agent.refused("work_done"), agent.refused("work_note", key="k", body="b", itemId=item)):
        failure = await call
        assert failure.code == "not_claim_holder"
    assert counted(CLAIM_CONFLICTS, "not_holder") == before + 1, "that of the item by name"


async def test_without_an_item_reports_are_refused(tools: Tools, agent: Agent) -> None:
    for tool, arguments in (
        ("work_note", {"key": "k", "body": "b"}),
        ("work_done", {}),
        ("work_failed", {"reason": "r"}),
        ("work_ask", {"question": "q"}),
    ):
        failure = await agent.refused(tool, **arguments)
        assert (failure.code, failure.message) == ("not_claim_holder", "you hold no item: call work_next")
    item = await tools.add()
    assert (await agent.refused("work_done", itemId=item)).code == "not_claim_holder"
    assert (await agent.refused("work_done", itemId="0" * 32)).code == "RESOURCE_NOT_FOUND"
    assert (await agent.refused("work_done", itemId="xyz")).code == "VALIDATION_ERROR"


async def test_no_capabilities_are_others_than_none_named(tools: Tools, agent: Agent) -> None:
    item = await tools.add(requires=["gpu"])
    await agent.next(capabilities=["gpu", "python"], tags="none")
    assert (await agent.next(capabilities=[]))["outcome"] == "none"
    assert (await agent.next())["outcome"] == "none"
    assert await agent.take(capabilities=["gpu"]) == item


async def test_an_empty_list_is_a_result(tools: Tools, agent: Agent) -> None:
    one, other = await tools.add_many(2)
    await agent.take()
    await agent.done(result=[])
    await agent.take()
    await agent.done()
    assert (await tools.notes(one), await tools.notes(other)) == ({"result": "[]"}, {})


def with_settings(store: Store, project: str, **settings: Any) -> Tools:
    return Tools(store, project, Settings(request_deadline_ms=LONG_MS, **settings))


async def test_review_and_required_notes(store: Store, project: str) -> None:
    notes = [
        {"key": "plan", "role": "queue", "required": True, "description": "What will be done."},
        {"key": "proof", "role": "work", "required": True, "description": "How it was tested.", "guidance": "Short."},
        {"key": "verdict", "role": "review"},
    ]
    schemas = convert({"feature": {"notes": notes}}, dict[str, SchemaSettings])
    tools = with_settings(store, project, work_item_schemas=schemas, attempts=Attempts(max=0, backoff_seconds=0))
    item, agent = await tools.add(type="feature"), tools.worker("a")
    got = await agent.next()
    assert (got["role"], got["notesNeeded"]) == ("queue", [{"key": "plan", "description": "What will be done."}])
    assert got["problem"] == "it starts as soon as the notes in notesNeeded are written"
    needed = [{"key": "proof", "description": "How it was tested.", "guidance": "Short."}]
    assert (await agent.note("plan", "p"))["notesNeeded"] == needed
    assert await tools.role(item) == "work"
    failure = await agent.refused("work_done", result="r")
    assert (failure.code, failure.body()["notesNeeded"]) == ("not_ready", needed)
    assert "proof" in failure.message
    assert "notesNeeded" not in await agent.note("proof", "it was")
    assert await agent.done(result="r") == {"itemId": item, "role": "review"}
    # Its result is there for the reviewer, and it is not offered to other workers.
    assert await tools.notes(item) == {"plan": "p", "proof": "it was", "result": "r"}
    assert (await agent.next())["outcome"] == "none"
    claim = await tools("claim_item", actor={"id": "r", "kind": "user"}, requestId=fresh_id(),
                        claims=[{"selector": {"role": "review"}}])  # fmt: skip
    assert claim["claimResults"][0]["itemId"] == item
    await lapse(tools, item)
    got = await agent.next()
    assert (got["item"]["id"], got["role"], got["takeover"]) == (item, "review", True)
    assert (await agent.done())["role"] == "terminal"


async def test_an_item_that_its_children_have_ended_takes_the_result(tools: Tools, agent: Agent) -> None:
    parent = await tools.add("parent", priority="high")
    assert await agent.take() == parent
    child = await tools.add("child", parentId=parent)
    await tools.move(child, "start", "complete")
    assert await tools.role(parent) == "terminal"
    assert (await agent.refused("work_ask", question="q")).code == "not_ready"
    assert await agent.done(result="r") == {"itemId": parent, "role": "terminal", "note": "result"}
    assert await tools.notes(parent) == {"result": "r"}
    assert (await agent.done())["repeated"]


async def test_what_came_in_between_is_told(tools: Tools, agent: Agent) -> None:
    item, blocker = await tools.add(priority="high"), await tools.add()
    await agent.take()
    await tools.link(blocker, item)
    failure = await agent.refused("work_done")
    assert (failure.code, failure.body()["blockers"][0]["fromItemId"]) == ("not_ready", blocker)
    assert (await agent.failed("waits", handBack=True))["role"] == "work"
    assert await agent.take() == blocker
    await tools.delete(blocker)
    assert (await agent.refused("work_done")).message == "you hold no item: call work_next"
    assert await agent.take() == item


async def test_a_late_report_on_a_quarantined_item(store: Store, project: str) -> None:
    tools = with_settings(store, project, attempts=Attempts(max=1, backoff_seconds=0))
    item, agent = await tools.add(), tools.worker("a")
    await agent.take()
    await lapse(tools, item, whole=True)
    failure = await agent.refused("work_done", result="late")
    assert (failure.code, failure.message) == (
        "not_ready", "it was blocked meanwhile: give it back with work_failed and handBack"
    )  # fmt: skip
    assert (await agent.next())["outcome"] == "none"
    assert (await agent.failed("late", handBack=True))["role"] == "blocked"
    assert (await tools.get(item))["attempts"]["count"] == 1


async def test_a_full_item_can_be_handed_back(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    notes = [{"itemId": item, "key": f"n{n}", "role": "work", "body": "b"} for n in range(500)]
    await tools("manage_notes", operation="upsert", notes=notes)
    for tool, arguments in (("work_note", {"key": "more", "body": "b"}), ("work_ask", {"question": "q"})):
        failure = await agent.refused(tool, **arguments)
        assert (failure.code, "500 notes" in failure.message) == ("not_ready", True)
    assert await tools.role(item) == "work"
    assert await agent.failed("full", handBack=True) == {"itemId": item, "role": "work"}


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("work_next", {"waitMs": 0, "capabilities": ["Two Words"]}, "capabilities"),
        ("work_next", {"waitMs": 0, "tags": "a b c !"}, "tags"),
        ("work_next", {"waitMs": 0, "parentId": "no id"}, "parentId"),
        ("work_next", {"waitMs": -1}, "waitMs"),
        ("work_next", {"waitMs": 0, "ttlSeconds": 0}, "ttlSeconds"),
        ("work_note", {"key": " ", "body": "b"}, "key"),
        ("work_note", {"key": "k"}, "body"),
        ("work_note", {"key": "k", "body": "b" * 500_001}, "body"),
        ("work_done", {"result": "r" * 262_145}, "result"),
        ("work_done", {"summary": "s" * 2001}, "summary"),
        ("work_failed", {}, "reason"),
        ("work_failed", {"reason": "r" * 501}, "reason"),
        ("work_ask", {"question": " "}, "question"),
        ("work_done", {"requestId": "x"}, "requestId"),
    ],
)
async def test_wrong_arguments_are_named(agent: Agent, tool: str, arguments: Json, field: str) -> None:
    failure = await agent.refused(tool, **arguments)
    assert (failure.code, field in failure.message) == ("VALIDATION_ERROR", True), failure.message


async def test_an_agent_is_told_to_stop_when_a_budget_is_spent(tools: Tools, agent: Agent) -> None:
    root = await tools.add("root", budget={"tokens": 10})
    item, _ = await tools.add("one", parentId=root, priority="high"), await tools.add("two", parentId=root)
    assert (await agent.next())["item"]["id"] == item
    note = {"itemId": item, "key": "k", "role": "work", "usage": {"outputTokens": 10}}
    await tools("manage_notes", operation="upsert", notes=[note])
    again = await agent.next()
    assert (again["outcome"], again["held"], again["stop"]) == ("item", True, True)
    assert again["stopReason"] == f"the budget of item {root} is spent: 10 of 10 tokens"
    await agent.done()
    spent = await agent.next(parentId=root)
    assert (spent["outcome"], spent["stopReason"]) == ("stop", again["stopReason"])
    assert (await agent.next(waitMs=0))["heldBack"]["budget"] == 1


async def test_an_expired_claim_is_taken_up_again_only_with_its_resources(tools: Tools, agent: Agent) -> None:
    """Also for a report that would end the work, and is refused."""
    more = {"resources": [{"key": "r"}], "retryBackoffSeconds": 0}
    one, two = await tools.add("one", priority="high", **more), await tools.add("two", **more)
    blocker = await tools.add("blocker")
    assert await agent.take() == one
    await tools("manage_dependencies", operation="create", dependencies=[{"fromItemId": blocker, "toItemId": one}])
    for report in ("note", "done"):
        await lapse(tools, one, whole=True)
        if report == "note":
            await agent.note("k", "taken up again")
        else:
            assert (await agent.refused("work_done")).code == "not_ready"
        held = (await tools("get_context", itemId=one))["claimDetail"]["resources"]
        assert [resource["key"] for resource in held] == ["r"]
    await lapse(tools, one, whole=True)
    other = tools.worker("agent-2")
    taken = await tools("claim_item", actor=actor(other.name), requestId=fresh_id(), claims=[{"itemId": two}])
    assert taken["claimResults"][0]["outcome"] == "success"
    for refused, fields in (("work_note", {"key": "k", "body": "b"}), ("work_done", {})):
        assert (await agent.refused(refused, itemId=one, **fields)).code == "not_claim_holder"
        assert (await tools("get_context", itemId=one)).get("claimDetail", {}).get("isExpired", True)
    assert (await tools.notes(one))["k"] == "taken up again"


async def test_an_agent_reads_what_its_first_answer_has_left_out(tools: Tools, agent: Agent) -> None:
    item, results = await fan_in(tools, 199)
    notes = [{"itemId": item, "key": f"k{number:03}", "role": "queue", "body": "b"} for number in range(101)]
    await tools("manage_notes", operation="upsert", notes=notes)
    got = await agent.next(offset=7)
    assert "held" not in got, "nothing is skipped of an item that it has not seen"
    assert (len(got["results"]), got["resultsTotal"], got["resultsLeft"], got["nextOffset"]) == (100, 199, 99, 100)
    assert (len(got["notes"]), got["notesTotal"], got["notesLeft"]) == (100, 101, 1)
    more = await agent.next(offset=got["nextOffset"])
    assert (more["held"], len(more["results"]), len(more["notes"])) == (True, 99, 1)
    assert {"resultsLeft", "notesLeft", "nextOffset"} & more.keys() == set()
    assert {one["itemId"] for one in got["results"] + more["results"]} == results.keys()
    sums = [sum(one["result"]) for one in got["results"] + more["results"]]
    assert sum(sums) == sum(results.values())
    failure = await agent.refused("work_next", offset=-1)
    assert failure.code == "VALIDATION_ERROR"
