"""The answers of the tools, byte for byte: TOON, headers, lines of dashes and raw files."""

from __future__ import annotations

import pytest

from coordinator import __version__
from coordinator.definitions import Definitions, shipped, toon
from tests.sessions import lab
from tests.sessions.client import Sessions
from tests.sessions.conftest import Make
from tests.support.workflows import roots

pytestmark = pytest.mark.anyio

SEP = "\n\n---\n\n"
LEADING = lab.SKILL.format(id="leading", capability="Of the lab: leading")
SUMMARY = """\
id: lab
version: 1.2.3
title: The lab
description: "Small, but: complete"
rules[2]: Be careful,"Ask, don't guess"
variables[2]:
  - name: ready
    type: boolean
    description: Whether it is ready
    defaultValue: false
    required: false
  - name: level
    type: number
    required: false
modes[1]:
  - id: quick
    name: Quick
    activationVariable: is_quick
    skipActivities[1]: measure
initialActivity: prepare
activities[3]{id,name,required}:
  prepare,Prepare,true
  measure,Measure,false
  report,Report,true
session_token: """
GO = """\
id: go
name: Go ahead
message: "Ready to go: shall we?"
options[3]:
  - id: proceed
    label: Proceed
    description: "Yes, go on"
    effect:
      setVariable:
        ready: true
  - id: stop
    label: Stop
    effect:
      setVariable:
        ready: false
        level: 0
      transitionTo: report
      skipActivities[1]: measure
  - id: plain
    label: Nothing follows
blocking: true
checkpoint_handle: """
MAYBE = """\
id: maybe
name: Only maybe
message: Asked only if it is not ready
condition:
  type: and
  conditions[2]:
    - type: simple
      variable: ready
      operator: !=
      value: true
    - type: simple
      variable: level
      operator: exists
options[1]{id,label}:
  fine,Fine
blocking: true
checkpoint_handle: """
TIMED = """\
id: timed
name: Timed
message: Goes on by itself
options[2]:
  - id: first
    label: First
    effect:
      setVariable:
        level: 1
  - id: second
    label: Second
blocking: false
defaultOption: first
autoAdvanceMs: 90600
checkpoint_handle: """


async def test_discover_is_a_head_and_the_guide(sessions: Sessions) -> None:
    answer = await sessions("discover")
    assert answer.text == f"server: fleet-coordinator\nversion: {__version__}\n\n{lab.GUIDE}"
    assert answer.meta == {}


async def test_list_workflows_leaves_meta_out(sessions: Sessions) -> None:
    assert (await sessions("list_workflows")).text == (
        "[3]:\n"
        "  - id: annex\n    title: The annex\n    version: 0.1.0\n    tags: null\n"
        "  - id: bare\n    title: Bare\n    version: 1.0.0\n    tags: null\n"
        "  - id: lab\n    title: The lab\n    version: 1.2.3\n    tags[2]: small,test"
    )


async def test_health_check(sessions: Sessions) -> None:
    answer = await sessions("health_check")
    assert list(answer.result) == ["status", "server", "version", "workflows_available", "uptime_seconds"]
    assert answer.result | {"uptime_seconds": 0} == {
        "status": "healthy",
        "server": "fleet-coordinator",
        "version": __version__,
        "workflows_available": 3,
        "uptime_seconds": 0,
    }
    assert answer.meta == {}


async def test_start_session_returns_its_workflow(sessions: Sessions) -> None:
    answer = await sessions("start_session", agent_id="orchestrator", workflow_id="lab")
    assert list(answer.result) == ["workflow", "session_token"]
    assert answer["workflow"] == {
        "id": "lab", "version": "1.2.3", "title": "The lab", "description": "Small, but: complete"
    }  # fmt: skip
    assert answer.meta == {"session_token": answer["session_token"]}
    assert "description" not in (await sessions("start_session", workflow_id="bare"))["workflow"]


async def test_get_workflow_begins_with_the_primary_skill(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    short = await sessions("get_workflow", session_token=token)
    assert short.text == LEADING + SEP + SUMMARY + short.token
    assert short.meta["validation"] == {"status": "valid", "warnings": []}
    long = await sessions("get_workflow", session_token=short.token, summary=False)
    head, whole = long.text.removeprefix(LEADING + SEP).split("\n\n", 1)
    assert head == f"session_token: {long.token}"
    files = [toon.read(text).data for text in (lab.PREPARE, lab.MEASURE, lab.REPORT)]
    assert toon.read(whole).data == {**toon.read(lab.LAB).data, "activities": files}


async def test_a_full_definition_is_one_document_of_all_files(make: Make) -> None:
    for root in roots():
        sessions = make(definitions=Definitions([root], 0))
        for name, workflow in Definitions([root], 0).current.workflows.items():
            token = await sessions.start(name)
            short, long = [
                (await sessions("get_workflow", session_token=token, summary=summary)).text for summary in (True, False)
            ]
            whole = toon.read(long.rpartition("\nsession_token: ")[2].partition("\n\n")[2] or long.partition("\n\n")[2])
            assert whole.notes == (), name
            assert whole.data["activities"] == [dict(one.data) for one in workflow.activities.values()]
            assert len(short) < len(long), name


async def test_without_a_primary_skill_there_is_no_line_of_dashes(sessions: Sessions) -> None:
    for workflow in ("bare", "annex"):
        short = await sessions("get_workflow", session_token=await sessions.start(workflow))
        assert short.text.startswith(f"id: {workflow}\nversion: ")
        long = await sessions("get_workflow", session_token=short.token, summary=False)
        assert long.text.startswith(f"session_token: {long.token}\n\nid: {workflow}\n")


async def test_missing_fields_of_a_workflow_are_null(sessions: Sessions) -> None:
    answer = await sessions("get_workflow", session_token=await sessions.start("bare"))
    assert answer.text == (
        "id: bare\nversion: 1.0.0\ntitle: Bare\ndescription: null\nrules: null\nvariables: null\n"
        f"initialActivity: null\nactivities[1]{{id,name,required}}:\n  only,Report,true\nsession_token: {answer.token}"
    )


async def test_get_activity_is_the_file_below_the_token(sessions: Sessions) -> None:
    answer = await sessions("get_activity", session_token=await sessions.at("lab", "prepare"))
    assert answer.text == f"session_token: {answer.token}\n\n{lab.PREPARE}"


async def test_get_skills_is_the_primary_skill_below_a_head(sessions: Sessions) -> None:
    answer = await sessions("get_skills", session_token=await sessions.at("lab", "prepare"))
    assert answer.text == f"scope: workflow\nsession_token: {answer.token}{SEP}{LEADING}"
    none = await sessions("get_skills", session_token=await sessions.start("bare"))
    assert none.text == f"scope: workflow\nsession_token: {none.token}{SEP}"
    missing = await sessions("get_skills", session_token=await sessions.start("annex"))
    assert missing.text == f"scope: workflow\nsession_token: {missing.token}\nfailed_skills: missing{SEP}"


async def test_get_skill_is_the_file_below_the_token(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    first = await sessions("get_skill", session_token=token)
    assert first.text == f"session_token: {first.token}\n\n{LEADING}"


@pytest.mark.parametrize(
    ("reference", "head", "content"),
    [
        ("0", "id: notes\nversion: 1.1.0\n", "# Notes\n\nText."),
        ("00", "id: notes\nversion: 1.1.0\n", "# Notes\n\nText."),
        ("000", "id: notes\nversion: 1.1.0\n", "# Notes\n\nText."),
        ("1", "id: plain\nversion: 1.2.3\n", lab.PLAIN),
        ("07", "id: table\nversion: 3.0.0\n", lab.TABLE),
        ("lab/1", "id: plain\nversion: 1.2.3\n", lab.PLAIN),
        ("meta/00", "id: bootstrap\nversion: 2.0.0\n", "# Begin\n\n1. `start_session`"),
    ],
)
async def test_get_resource_is_a_head_and_the_body(sessions: Sessions, reference: str, head: str, content: str) -> None:
    answer = await sessions("get_resource", session_token=await sessions.start("lab"), resource_id=reference)
    assert answer.text == f"resource_id: {reference}\n{head}session_token: {answer.token}\n\n{content}"


@pytest.mark.parametrize(("checkpoint", "shown"), [("go", GO), ("maybe", MAYBE), ("timed", TIMED)])
async def test_present_checkpoint_is_the_definition_and_the_handle(
    sessions: Sessions, checkpoint: str, shown: str
) -> None:
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id=checkpoint))["checkpoint_handle"]
    answer = await sessions("present_checkpoint", checkpoint_handle=handle)
    assert answer.text == shown + handle
    assert answer.meta == {"session_token": handle, "validation": {"status": "valid", "warnings": []}}


async def test_checkpoint_answers_have_the_documented_fields(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    yielded = await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")
    assert list(yielded.result) == ["status", "checkpoint_id", "checkpoint_handle", "message"]
    assert (yielded["status"], yielded["checkpoint_id"]) == ("yielded", "go")
    assert yielded["checkpoint_handle"] == yielded.token
    answered = await sessions("respond_checkpoint", checkpoint_handle=yielded.token, option_id="stop")
    assert list(answered.result) == ["checkpoint_id", "resolved", "checkpoint_handle", "resolved_option", "effect"]
    assert answered["resolved"] is True
    assert answered["effect"] == {
        "setVariable": {"ready": False, "level": 0}, "transitionTo": "report", "skipActivities": ["measure"]
    }  # fmt: skip
    assert answered["checkpoint_handle"] == answered.token
    resumed = await sessions("resume_checkpoint", session_token=yielded.token)
    assert list(resumed.result)[:2] == ["status", "message"]
    assert resumed["status"] == "resumed"
    assert resumed["session_token"] == resumed.token
    assert resumed["effect"] == answered["effect"]


async def test_answers_of_a_dismissal_and_of_an_option_without_effect(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="maybe")).token
    answered = await sessions("respond_checkpoint", checkpoint_handle=handle, condition_not_met=True)
    assert list(answered.result) == ["checkpoint_id", "resolved", "checkpoint_handle", "dismissed"]
    assert answered["dismissed"] is True
    handle = (await sessions("yield_checkpoint", session_token=answered.token, checkpoint_id="go")).token
    answered = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="plain")
    assert list(answered.result) == ["checkpoint_id", "resolved", "checkpoint_handle", "resolved_option"]


async def test_next_activity_returns_no_definition(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    answer = await sessions("next_activity", session_token=token, activity_id="prepare")
    assert list(answer.result) == ["activity_id", "name", "session_token"]
    assert (answer["activity_id"], answer["name"]) == ("prepare", "Prepare")
    assert list(answer.meta) == ["session_token", "validation", "trace_token"]


async def test_the_default_guide(sessions: Sessions, definitions: Definitions) -> None:
    plain = definitions.roots[0] / "meta" / "resources" / "00-bootstrap.md"
    text = plain.read_bytes()
    plain.unlink()
    try:
        definitions.refresh()
        head, _, guide = (await sessions("discover")).text.partition("\n\n")
        assert head == f"server: fleet-coordinator\nversion: {__version__}"
        assert guide == (shipped() / "meta" / "resources" / "00-bootstrap.md").read_text()
    finally:
        plain.write_bytes(text)
        definitions.refresh()
