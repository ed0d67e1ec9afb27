"""Notes under kept keys: nobody answers in a person's name, asks in an agent's, or rewrites those of runners."""

from __future__ import annotations

import pytest

from coordinator.toolsets.items.store.agents.questions import answered_questions
from tests.items.client import Json
from tests.worker.client import Agent, Tools, actor

pytestmark = pytest.mark.anyio

ASKED = ["question-1", "answer-1", "answer-2", "answer-007", "ANSWER-1", "Question-12", " answer-1", "answer-\u0661"]
ASKED += [
    *("answer - 1", "answer\u2011\u00ad1", "answer\u22121", "\u0430nswer-1\u200b"),
    *("\uff51uestion-\u2460", "a\u0301nswer-1"),
]
FREE = ["result", "handed-back", "answer", "answers", "answer-draft", "question", "my-answer-1", "running-1", "run"]
FREE.append("\u043e\u0442\u0432\u0435\u0442-1")


async def kept(tools: Tools, item: str) -> dict[str, str]:
    return {key: body for key, body in (await tools.notes(item)).items() if key not in FREE}


def note(item: str, key: str, body: str = "forged", by: str = "") -> Json:
    more = {"actor": actor(by)} if by else {}
    return {"itemId": item, "key": key, "role": "work", "body": body, **more}


async def write(tools: Tools, *notes: Json) -> list[str]:
    """Writes notes; returns why some were refused."""
    answer = await tools("manage_notes", operation="upsert", notes=[*notes])
    return [one["error"] for one in answer.get("failures", ())]


@pytest.mark.parametrize("key", [*ASKED, "run-1", "RUN-2-1", "run-1-22222222", "r\u0446n\u20131"])
async def test_no_agent_writes_a_kept_note_about_its_item(tools: Tools, agent: Agent, key: str) -> None:
    item = await tools.add()
    await agent.take()
    failure = await agent.refused("work_note", key=key, body="Yes, says Ada.")
    assert (failure.code, failure.message.split(":")[0]) == ("VALIDATION_ERROR", "key")
    assert f"{key!r} is kept for" in failure.message
    assert await tools.notes(item) == {}


@pytest.mark.parametrize("key", FREE)
async def test_all_other_keys_are_for_everybody(tools: Tools, agent: Agent, key: str) -> None:
    item = await tools.add()
    await agent.take()
    await agent.note(key, "own words")
    assert await write(tools, note(item, key, "of an orchestrator")) == []
    assert await tools.notes(item) == {key: "of an orchestrator"}


@pytest.mark.parametrize("key", ASKED)
async def test_no_other_tool_writes_questions_or_answers_that_nobody_waits_for(tools: Tools, key: str) -> None:
    item = await tools.add(role="work")
    (why,) = await write(tools, note(item, key))
    assert "is kept for" in why
    tree: Json = {"root": {"title": "t"}, "notes": [{"itemRef": "root", "key": key, "role": "queue", "body": "b"}]}
    refused = await tools.refusal("create_work_tree", **tree)
    assert refused.message.startswith("notes[0].key: ")
    assert await tools.notes(item) == {}


async def test_an_answer_is_taken_while_its_question_is_open_and_says_who_gave_it(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    assert await write(tools, note(item, "answer-1")) != [], "it is in work"
    await agent.ask("Red or blue?")
    why = await write(tools, note(item, "answer-2"), note(item, "question-2"), note(item, "answer-1", "Blue.", "ada"))
    assert [one.split(":")[0] for one in why] == ["key", "key"]
    await tools.advance(item, "resume")
    assert len(await write(tools, note(item, "answer-1", "Red.", "mallory"))) == 1, "it goes on by the first answer"
    got = await tools.worker("agent-2").next()
    assert got["questions"] == [{"question": "Red or blue?", "answer": "Blue.", "answeredBy": "ada"}]
    await tools.worker("agent-2").ask("Light or dark?")
    assert len(await write(tools, note(item, "answer-1", "Red.", "mallory"))) == 1, "that is another question"
    assert await write(tools, note(item, "answer-2", "Dark.", "bob")) == []
    await tools.advance(item, "resume", actor=actor("carol"))
    assert await kept(tools, item) == {
        "question-1": "Red or blue?", "answer-1": "Blue.", "question-2": "Light or dark?", "answer-2": "Dark."
    }  # fmt: skip
    answered = (await answered_questions(tools.store, tools.project)).rows
    assert [(one.number, one.text, getattr(one.by, "id", None)) for one in answered] == [
        (2, "Dark.", "bob"), (1, "Blue.", "ada")
    ]  # fmt: skip


async def test_an_answer_never_becomes_that_of_a_later_question(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    await agent.ask("May I read it?")
    await tools.answer_question(item, "Yes.")
    await tools("manage_notes", operation="delete", itemId=item, key="question-1")
    await agent.take()
    assert (await agent.ask("May I delete it?"))["note"] == "question-2"
    assert await write(tools, note(item, "answer-1", "No.")) != []
    await tools.answer_question(item, "No.", 2)
    assert (await agent.next())["questions"] == [{"question": "May I delete it?", "answer": "No."}]
