"""next_activity and get_workflow_status: positions, ends, lost answers and stale tokens."""

from __future__ import annotations

import pytest

from coordinator.definitions import TERMINALS, Definitions
from tests.sessions import lab
from tests.sessions.client import Answer, Sessions
from tests.sessions.conftest import Make
from tests.sessions.shown import payload, segment

pytestmark = pytest.mark.anyio


async def go(sessions: Sessions, token: str, activity: str, **more: object) -> Answer:
    return await sessions("next_activity", session_token=token, activity_id=activity, **more)


async def status(sessions: Sessions, token: str) -> Answer:
    return await sessions("get_workflow_status", session_token=token)


async def test_the_token_follows_the_session(sessions: Sessions) -> None:
    answer = await go(sessions, await sessions.start("lab"), "prepare", transition_condition="x == 1")
    carried = payload(answer.token)
    assert (carried["act"], carried["cond"], carried["seq"], carried["skill"]) == ("prepare", "x == 1", 1, "")
    answer = await go(sessions, answer.token, "report")
    assert (payload(answer.token)["act"], payload(answer.token)["cond"]) == ("report", "")


async def test_an_unknown_activity_is_rejected_and_the_session_stays(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    for activity in ("nowhere", "wait", "__terminal__", "workflow-end", "../prepare"):
        refused = await sessions.refusal("next_activity", session_token=token, activity_id=activity)
        exist = "; did you mean 'prepare'?" if activity == "../prepare" else "; there are: prepare, measure, report"
        if activity in TERMINALS:
            exist = ". The session cannot end so. From 'prepare' it can go to: measure, report"
        assert refused.text == f"Activity not found: {activity}{exist}"
        assert refused.error == "RESOURCE_NOT_FOUND"
    assert (await status(sessions, token))["current_activity"] == "prepare"


async def test_each_call_returns_the_next_token_and_the_old_one_stays_valid(sessions: Sessions) -> None:
    first = await sessions.at("lab", "prepare")
    second = (await sessions("get_activity", session_token=first)).token
    third = (await sessions("get_skill", session_token=first)).token
    assert [payload(token)["seq"] for token in (first, second, third)] == [1, 2, 3]
    assert payload(third)["skill"] == "working"


async def test_a_status_shows_the_completed_activities(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    shown = await status(sessions, token)
    assert list(shown.result) == ["status", "current_activity", "completed_activities", "workflow", "session_token"]
    assert shown.meta == {"session_token": shown["session_token"]}
    assert shown["workflow"] == {"id": "lab", "version": "1.2.3", "title": "The lab"}
    assert (shown["status"], shown["current_activity"], shown["completed_activities"]) == ("active", "none", [])
    for activity in ("prepare", "measure", "prepare", "report"):
        token = (await go(sessions, token, activity)).token
    shown = await status(sessions, token)
    assert (shown["current_activity"], shown["completed_activities"]) == ("report", ["prepare", "measure"])
    assert payload(shown.token)["act"] == "report"


@pytest.mark.parametrize(("last", "end"), [("report", "__terminal__"), ("report", "end-workflow"),
                                           ("measure", "workflow-end"), ("measure", "__terminal__")])  # fmt: skip
async def test_a_session_is_completed_by_a_move_to_an_end(sessions: Sessions, last: str, end: str) -> None:
    token = (await go(sessions, await sessions.at("lab", "prepare"), last)).token
    answer = await go(sessions, token, end, step_manifest=lab.MEASURED)
    assert answer["activity_id"] == end
    assert answer.warnings == []
    assert payload(answer.token)["act"] == last
    shown = await status(sessions, answer.token)
    assert (shown["status"], shown["current_activity"]) == ("completed", last)
    assert shown["completed_activities"] == ["prepare", last]
    assert (await sessions("get_activity", session_token=answer.token)).token
    again = await go(sessions, answer.token, "prepare", step_manifest=lab.MEASURED)
    assert (await status(sessions, again.token))["status"] == "active"


async def test_an_end_must_be_an_exit_of_the_activity(sessions: Sessions) -> None:
    token = await sessions.at("lab", "measure")
    refused = await sessions.refusal("next_activity", session_token=token, activity_id="end-workflow")
    assert refused.text.startswith("Activity not found: end-workflow. The session cannot end so. From 'measure' it ")
    refused = await sessions.refusal(
        "next_activity", session_token=await sessions.start("lab"), activity_id="__terminal__"
    )
    assert refused.text == (
        "Activity not found: __terminal__. The session cannot end so. "
        "Before its first activity it can go to: prepare, measure, report"
    )


async def test_a_retried_call_has_no_second_effect(sessions: Sessions) -> None:
    """Its answer may have been lost with the process."""
    token = (await sessions("get_skills", session_token=await sessions.at("lab", "prepare"))).token
    first = await go(sessions, token, "measure", step_manifest=lab.PREPARED)
    again = await go(sessions, token, "measure", step_manifest=lab.PREPARED)
    assert again["activity_id"] == first["activity_id"]
    assert again.warnings == first.warnings == []
    trace = [
        await sessions("get_trace", session_token=again.token, trace_tokens=[one.meta["trace_token"]])
        for one in (first, again)
    ]
    assert trace[0]["events"] == trace[1]["events"]
    whole = await sessions("get_trace", session_token=again.token)
    assert [event["name"] for event in whole["events"]].count("next_activity") == 2
    # Another target from the same token is another call; so is the same target once the session has moved on.
    other = await go(sessions, token, "report", step_manifest=lab.PREPARED)
    assert (await status(sessions, other.token))["current_activity"] == "report"
    third = await go(sessions, token, "measure", step_manifest=lab.PREPARED)
    assert (await status(sessions, third.token))["current_activity"] == "measure"


async def test_another_report_from_the_same_token_corrects_the_transition(sessions: Sessions) -> None:
    """Warnings make agents correct themselves: the corrected report counts, and is in the trace."""
    token = await sessions.start("lab")
    first = await go(sessions, token, "prepare", activity_manifest=[])
    assert len(first.warnings) == 1
    handle = (await sessions("yield_checkpoint", session_token=first.token, checkpoint_id="go")).token
    await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="proceed")
    second = await go(sessions, token, "prepare", transition_condition="x == 1")
    assert second.warnings == []
    assert (payload(second.token)["act"], payload(second.token)["cond"]) == ("prepare", "x == 1")
    # The activity was entered once, so the answer given meanwhile can still be resumed from.
    assert (await sessions("resume_checkpoint", session_token=handle))["resolved_option"] == "proceed"
    third = await go(sessions, second.token, "measure", step_manifest=lab.PREPARED[:1])
    fourth = await go(sessions, second.token, "measure", step_manifest=lab.PREPARED)
    assert (len(third.warnings), fourth.warnings) == (1, [])
    shown = await status(sessions, fourth.token)
    assert (shown["current_activity"], shown["completed_activities"]) == ("measure", ["prepare"])
    events = (await sessions("get_trace", session_token=fourth.token))["events"]
    made = [event for event in events if event["name"] == "next_activity"]
    assert [event.get("vw", []) for event in made] == [first.warnings, [], third.warnings, []]
    cuts = [segment(one.meta["trace_token"]) for one in (first, second, third, fourth)]
    assert [(one["from"], one["to"]) for one in cuts] == [(0, 1), (1, 4), (4, 6), (6, 7)]


async def test_a_stale_token_gets_a_warning_and_still_reads(sessions: Sessions) -> None:
    behind = await sessions.at("lab", "prepare")
    await go(sessions, behind, "measure", step_manifest=lab.PREPARED)
    answer = await sessions("get_activity", session_token=behind)
    assert answer.text.endswith(lab.PREPARE)
    assert answer.meta["validation"]["status"] == "warning"
    assert answer.warnings == [
        "Token is behind its session: it is at activity 'prepare' but the session has moved on to 'measure'"
    ]
    moved = await go(sessions, answer.token, "report", step_manifest=lab.PREPARED)
    assert moved.warnings == answer.warnings
    assert (await status(sessions, answer.token))["current_activity"] == "report"
    refused = await sessions.refusal("yield_checkpoint", session_token=behind, checkpoint_id="go")
    assert refused.error == "checkpoint_closed"
    assert "moved on from activity 'prepare' to 'report'" in refused.text


async def test_a_move_leaves_the_activity_of_its_token(sessions: Sessions) -> None:
    """Even if another token has moved the session meanwhile."""
    start = await sessions.start("lab")
    first = await go(sessions, start, "prepare")
    await go(sessions, start, "measure")
    moved = await go(sessions, first.token, "report", step_manifest=lab.PREPARED)
    assert (await status(sessions, moved.token))["completed_activities"] == ["prepare"]
    await go(sessions, moved.token, "measure")
    done = await go(sessions, moved.token, "__terminal__")
    shown = await status(sessions, done.token)
    assert (shown["status"], shown["current_activity"]) == ("completed", "report")
    assert shown["completed_activities"] == ["prepare", "report"]


async def test_a_changed_definition_gets_a_warning(make: Make, definitions: Definitions) -> None:
    sessions = make()
    path = definitions.roots[0] / "lab" / "workflow.toon"
    token = await sessions.at("lab", "prepare")
    path.write_text(lab.LAB.replace("1.2.3", "2.0.0"))
    try:
        definitions.refresh()
        words = "session started with v1.2.3 but current definition is v2.0.0"
        for name in ("get_workflow", "get_activity", "get_skills", "get_skill"):
            assert words in (await sessions(name, session_token=token)).warnings[0]
        handle = await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")
        answers = [
            handle,
            await sessions("present_checkpoint", checkpoint_handle=handle.token),
            await sessions("respond_checkpoint", checkpoint_handle=handle.token, option_id="proceed"),
            await sessions("resume_checkpoint", session_token=handle.token),
            await go(sessions, handle.token, "report", step_manifest=lab.PREPARED),
            await sessions("get_resource", session_token=token, resource_id="1"),
        ]
        assert all(words in answer.warnings[0] for answer in answers)
        child = await sessions("start_session", workflow_id="annex", parent_session_token=token)
        assert payload(child.token)["pv"] == "1.2.3"
        assert payload(await sessions.start("lab"))["v"] == "2.0.0"
    finally:
        path.write_text(lab.LAB)
        definitions.refresh()
    path.unlink()
    try:
        definitions.refresh()
        for name, more in (("get_workflow", {}), ("get_activity", {}), ("next_activity", {"activity_id": "report"})):
            refused = await sessions.refusal(name, session_token=token, **more)
            assert refused.text == "Workflow not found: lab; there are: annex, bare, meta"
        assert (await status(sessions, token))["workflow"] == {"id": "lab"}
    finally:
        path.write_text(lab.LAB)
        definitions.refresh()


async def test_skills_are_looked_up_in_order(sessions: Sessions) -> None:
    """Its own, then those of a borrowed activity's workflow, then those of meta."""
    token = await sessions.at("lab", "prepare")
    found = {
        step: (await sessions("get_skill", session_token=token, step_id=step)).text.split("capability: ")[1]
        for step in ("set-up", "label")
    }
    assert found == {"set-up": "Of the lab: setting-up\n", "label": "Of everybody: worker\n"}
    assert "Of the lab: working" in (await sessions("get_skill", session_token=token)).text
    token = await sessions.at("annex", "prepare")
    assert "Of the lab: setting-up" in (await sessions("get_skill", session_token=token, step_id="set-up")).text
    assert (await sessions("get_activity", session_token=token)).text.endswith(lab.PREPARE)
    assert "Of everybody: worker" in (await sessions("get_skill", session_token=token, step_id="label")).text
    token = await sessions.at("lab", "measure")
    assert "Of everybody: worker" in (await sessions("get_skill", session_token=token)).text


@pytest.mark.parametrize(
    ("where", "arguments", "message"),
    [
        (("lab", ""), {"step_id": "clean"}, "Cannot provide step_id when no activity is active"),
        (("bare", ""), {}, "Workflow 'bare' does not define a primary skill"),
        (("annex", ""), {}, "Skill not found: missing"),
        (("bare", "only"), {}, "Activity 'only' does not define a primary skill"),
        (("lab", "prepare"), {"step_id": "clean"}, "Step 'clean' in activity 'prepare' has no associated skill"),
        (("lab", "prepare"), {"step_id": "store"}, "Step 'store' in activity 'prepare' has no associated skill"),
        (
            ("lab", "prepare"),
            {"step_id": "nope"},
            "Step 'nope' not found in activity 'prepare'. Available steps: [clean, set-up, label, store]",
        ),
    ],
)
async def test_a_missing_skill_is_reported(
    sessions: Sessions, where: tuple[str, str], arguments: dict[str, str], message: str
) -> None:
    workflow, activity = where
    token = await (sessions.at(workflow, activity) if activity else sessions.start(workflow))
    refused = await sessions.refusal("get_skill", session_token=token, **arguments)
    assert refused.text.startswith(message)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("99", "Resource not found: 99 in workflow lab; there are: 00, 01, 07"),
        ("0000", "Resource not found: 0000 in workflow lab; did you mean '00'?"),
        ("nope/01", "Workflow not found: nope; there are: annex, bare, lab, meta"),
        ("labs/01", "Workflow not found: labs; did you mean 'lab'?"),
        ("../lab/00", "Workflow not found: ..; there are: annex, bare, lab, meta"),
        ("/etc/passwd", "Resource not found: /etc/passwd in workflow lab; there are: 00, 01, 07"),
        ("notes", "Resource not found: notes in workflow lab; there are: 00, 01, 07"),
    ],
)
async def test_a_missing_resource_is_reported(sessions: Sessions, reference: str, message: str) -> None:
    token = await sessions.start("lab")
    refused = await sessions.refusal("get_resource", session_token=token, resource_id=reference)
    assert refused.text == message
    assert refused.error == "RESOURCE_NOT_FOUND"


async def test_a_missing_resource_is_hinted_at_in_the_skills_workflow(
    sessions: Sessions,
) -> None:
    """A number in a borrowed activity's skill refers to its own workflow's resources."""
    token = await sessions.at("annex", "prepare")
    refused = await sessions.refusal("get_resource", session_token=token, resource_id="01")
    assert refused.text == "Resource not found: 01 in workflow annex; there are: none"
    token = (await sessions("get_skill", session_token=token, step_id="set-up")).token
    refused = await sessions.refusal("get_resource", session_token=token, resource_id="01")
    assert refused.text == (
        "Resource not found: 01 in workflow annex. The skill 'setting-up' is of workflow 'lab', which has it: lab/01"
    )
    assert (await sessions("get_resource", session_token=token, resource_id="lab/01")).text.endswith(lab.PLAIN)
    for reference in ("99", "meta/01"):
        refused = await sessions.refusal("get_resource", session_token=token, resource_id=reference)
        assert "setting-up" not in refused.text


async def test_get_activity_needs_a_current_activity(sessions: Sessions) -> None:
    refused = await sessions.refusal("get_activity", session_token=await sessions.start("lab"))
    assert refused.text == "No current activity in session token. Call next_activity first."
    refused = await sessions.refusal("yield_checkpoint", session_token=await sessions.start("lab"), checkpoint_id="go")
    assert refused.text == "Checkpoint not found: go in activity none. Call next_activity first"


async def test_sessions_do_not_disturb_each_other(sessions: Sessions) -> None:
    first, second = await sessions.at("lab", "measure"), await sessions.at("lab", "prepare")
    await sessions("yield_checkpoint", session_token=second, checkpoint_id="go")
    assert (await go(sessions, first, "report", step_manifest=lab.MEASURED)).warnings == []
    assert (await status(sessions, second))["status"] == "blocked"
