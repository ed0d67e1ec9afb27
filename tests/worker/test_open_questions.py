"""Questions of agents, open ones and answered ones, in pages."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.toolsets.actor import ActorEcho
from coordinator.toolsets.items.store.agents.questions import OpenQuestion, answered_questions, open_questions
from tests.items.client import fresh_id
from tests.worker.client import Tools

pytestmark = pytest.mark.anyio


async def questions(tools: Tools) -> list[OpenQuestion]:
    page = await open_questions(tools.store, tools.project)
    assert page.next == ""
    return page.rows


async def asked(tools: Tools, agent: str, question: str) -> str:
    """An item that the agent has taken and blocked with a question."""
    item = await tools.add(f"item of {agent}")
    worker = tools.worker(agent)
    assert await worker.take() == item
    await worker.ask(question)
    return item


@pytest.mark.every_store
async def test_a_question_is_listed_until_its_item_goes_on(tools: Tools) -> None:
    item = await asked(tools, "ann", "Which of the two?")
    (one,) = await questions(tools)
    assert (one.item, one.title, one.number) == (item.replace("-", ""), "item of ann", 1)
    assert (one.text, one.bytes) == ("Which of the two?", 17)
    assert isinstance(one.actor, ActorEcho)
    assert one.actor.id == "ann"
    await tools.answer_question(item, "The first.")
    assert await questions(tools) == []
    # It asks again.
    worker = tools.worker("ann")
    assert await worker.take() == item
    await worker.ask("And then?")
    (two,) = await questions(tools)
    assert (two.number, two.text) == (2, "And then?")
    assert two.asked_at >= one.asked_at


async def test_an_item_that_is_blocked_without_a_question_is_not_listed(tools: Tools) -> None:
    item = await asked(tools, "ann", "Which?")
    await tools.advance(item, "resume")
    await tools.advance(item, "block")
    assert await questions(tools) == []


async def test_a_refused_or_repeated_question_is_none(tools: Tools) -> None:
    item = await tools.add()
    worker = tools.worker("ann")
    assert await worker.take() == item
    await worker.refused("work_ask", question=" ")
    assert await questions(tools) == []
    await worker.ask("Which?")
    again = await worker.ask("Which?", itemId=item)
    assert again["repeated"]
    assert [one.number for one in await questions(tools)] == [1]


async def test_long_questions_show_their_size_only(tools: Tools) -> None:
    item = await asked(tools, "ann", "ä" * 10_001)
    (one,) = await questions(tools)
    assert (one.item, one.text, one.bytes) == (item.replace("-", ""), "", 20_002)


async def test_questions_come_in_pages_and_are_forgotten_in_time(tools: Tools) -> None:
    items = [await asked(tools, f"agent-{number}", f"Question {number}?") for number in range(7)]
    found: list[str] = []
    after = ""
    while True:
        page = await open_questions(tools.store, tools.project, after=after, limit=3)
        found += [one.text for one in page.rows]
        if not (after := page.next):
            break
    assert sorted(found) == [f"Question {number}?" for number in range(7)]
    key = keys.questions.key(tools.project)
    for item in items[:2]:
        await tools.answer_question(item, "Yes.")
    await tools("manage_items", operation="delete", requestId=fresh_id(), ids=items[2:])
    assert await questions(tools) == []
    assert await tools.store.command("ZCARD", key) == 5
    # Each question takes out some that are not open any more. The answered items would be taken first.
    for item in items[:2]:
        await tools.advance(item, "complete")
    await asked(tools, "late", "One?")
    await asked(tools, "later", "Two?")
    assert await tools.store.command("ZCARD", key) == 2
    assert [one.text for one in await questions(tools)] == ["Two?", "One?"]


async def test_an_answer_is_in_the_history_with_who_gave_it(tools: Tools) -> None:
    item = await asked(tools, "ann", "Which of the two?")
    assert (await answered_questions(tools.store, tools.project)).rows == []
    await tools.answer_question(item, "The first.")
    await tools.advance(item, "hold")  # is not taken again
    other = await asked(tools, "bob", "Why?")
    await tools.advance(other, "cancel")
    page = await answered_questions(tools.store, tools.project)
    assert page.next == ""
    cancelled, one = page.rows
    assert (one.item, one.title, one.number, one.trigger) == (item.replace("-", ""), "item of ann", 1, "resume")
    assert one.text == "The first."
    assert isinstance(one.asked_by, ActorEcho)
    assert one.asked_by.id == "ann"
    assert (cancelled.item, cancelled.trigger, cancelled.text) == (other.replace("-", ""), "cancel", "")
    # What is deleted is not told any more, but that it was answered is.
    await tools("manage_items", operation="delete", ids=[item])
    gone = (await answered_questions(tools.store, tools.project)).rows[1]
    assert (gone.item, gone.title, gone.text, gone.at) == (one.item, "", "", one.at)
    # A page begins after any entry.
    assert (await answered_questions(tools.store, tools.project, after=cancelled.entry)).rows == [gone]
    with pytest.raises(ToolFailure, match="after: must be"):
        await answered_questions(tools.store, tools.project, after="0-0")


async def test_only_what_ends_the_wait_for_an_answer_is_in_the_history(tools: Tools) -> None:
    item = await asked(tools, "ann", "Which?")
    await tools.advance(item, "resume")
    for _ in range(2):  # blocked by somebody, without a question
        await tools.advance(item, "block")
        await tools.advance(item, "resume")
    await tools.advance(item, "cancel")
    rows = (await answered_questions(tools.store, tools.project)).rows
    assert [(one.number, one.trigger) for one in rows] == [(1, "resume")]


async def test_of_those_who_answer_at_once_one_is_in_the_history(tools: Tools) -> None:
    item = await asked(tools, "ann", "Which?")
    person = [Tools(tools.store, tools.project) for _ in range(8)]
    await asyncio.gather(*(one.advance(item, "resume") for one in person), return_exceptions=True)
    assert len((await answered_questions(tools.store, tools.project)).rows) == 1


async def test_the_history_has_a_bound(tools: Tools) -> None:
    history = keys.answered.key(tools.project, "question")
    for _ in range(keys.MOST_ANSWERED + 5):
        await tools.store.command("XADD", history, "*", "r", "row")
    item = await asked(tools, "ann", "Which?")
    await tools.advance(item, "resume")
    assert await tools.store.command("XLEN", history) == keys.MOST_ANSWERED
