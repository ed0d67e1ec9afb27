"""The checkpoint gate: what it blocks, how it opens, its timers, and races."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinator.definitions import Definitions
from coordinator.store import keys
from coordinator.toolsets.sessions.metrics import CHECKPOINTS
from tests.sessions import lab
from tests.sessions.client import Sessions
from tests.sessions.conftest import Make
from tests.sessions.pending import READS, Pending
from tests.sessions.shown import payload, unsigned
from tests.support import counts

pytestmark = pytest.mark.anyio

ADVICE = "The orchestrator must resolve it by calling respond_checkpoint."


async def test_a_pending_checkpoint_blocks_every_token(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    adopted = await sessions("start_session", agent_id="b", session_token=unsigned(pending.handle))
    inherited = await sessions("start_session", agent_id="c", session_token=pending.tokens[0])
    status = await sessions("get_workflow_status", session_token=pending.tokens[1])
    for token in (*pending.tokens, pending.handle, adopted.token, inherited.token, status["session_token"]):
        for name, more in READS:
            refused = await sessions.refusal(name, session_token=token, **more)
            assert refused.text == f"Blocked: Active checkpoint 'go' on activity 'prepare'. {ADVICE}"
            assert refused.error == "checkpoint_active"
        for target in ("measure", "prepare", "nowhere", "__terminal__"):
            refused = await sessions.refusal("next_activity", session_token=token, activity_id=target)
            assert refused.text == (
                f"Cannot transition to '{target}': Active checkpoint 'go' on activity 'prepare'. {ADVICE}"
            )
        refused = await sessions.refusal("resume_checkpoint", session_token=token)
        assert refused.text == f"Cannot resume: Checkpoint 'go' is still active. {ADVICE}"
        refused = await sessions.refusal("yield_checkpoint", session_token=token, checkpoint_id="maybe")
        assert refused.text == f"Cannot yield checkpoint 'maybe': Checkpoint 'go' is already active. {ADVICE}"
    refused = await sessions.refusal("yield_checkpoint", session_token=pending.handle, checkpoint_id="go")
    assert refused.error == "checkpoint_active"


async def test_calls_that_do_not_advance_the_session_stay_open(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    for name in ("discover", "list_workflows", "health_check"):
        assert (await sessions(name)).text
    status = await sessions("get_workflow_status", session_token=pending.tokens[0])
    assert status["status"] == "blocked"
    assert status["active_checkpoint"] == {
        "activity_id": "prepare", "checkpoint_id": "go", "timestamp": payload(pending.handle)["ts"]
    }  # fmt: skip
    assert payload(status["session_token"])["bcp"] == "go"
    inherited = await sessions("start_session", agent_id="worker-2", session_token=pending.tokens[2])
    assert payload(inherited.token)["bcp"] == "go"
    for shown in (pending.handle, status["session_token"], inherited.token):
        assert (await sessions("present_checkpoint", session_token=shown)).text.startswith("id: go\n")


async def test_an_answer_opens_the_gate_for_every_token(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    answer = await pending.respond()
    assert "bcp" not in payload(answer["checkpoint_handle"])
    for token in (pending.tokens[2], pending.handle, answer["checkpoint_handle"]):
        read = await sessions("get_activity", session_token=token)
        assert "bcp" not in payload(read.token)
    assert (await sessions("resume_checkpoint", session_token=pending.handle))["status"] == "resumed"
    moved = await sessions("next_activity", session_token=pending.tokens[2], activity_id="report")
    assert payload(moved.token)["act"] == "report"


async def test_a_session_token_also_works_as_a_handle(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    shown = await sessions("present_checkpoint", session_token=pending.tokens[0])
    handle = shown.text.rsplit("checkpoint_handle: ", 1)[1]
    assert payload(handle)["bcp"] == "go"
    answer = await sessions("respond_checkpoint", session_token=pending.tokens[0], option_id="stop")
    assert answer["resolved_option"] == "stop"
    for token in (handle, answer.token):
        assert (payload(token)["act"], payload(token)["cond"]) == ("prepare", "default")
    # It refers to the same checkpoint, which is no longer pending.
    refused = await sessions.refusal("respond_checkpoint", checkpoint_handle=handle, option_id="proceed")
    assert refused.error == "checkpoint_closed"


async def test_a_checkpoint_is_answered_once(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    assert (await pending.respond("stop"))["resolved_option"] == "stop"
    for option in ("stop", "proceed", "nonsense"):
        again = await pending.respond(option)
        assert again.error == "checkpoint_closed"
        assert "does not have an active checkpoint" in again.text
        assert "'go' was already resolved with option 'stop'" in again.text
    refused = await sessions.refusal("present_checkpoint", checkpoint_handle=pending.handle)
    assert refused.error == "checkpoint_closed"
    status = await sessions("get_workflow_status", session_token=pending.handle, answered_checkpoints=True)
    assert [one["resolved_option"] for one in status["answered_checkpoints"]] == ["stop"]


async def test_twenty_racing_answers_have_one_winner(make: Make) -> None:
    """Over several front-ends, with several options and ways of answering, some by older tokens."""
    fronts = [make() for _ in range(4)]
    pending = await Pending.at(fronts[0], "maybe")
    ways: list[dict[str, Any]] = [{"option_id": "fine"}, {"condition_not_met": True}]
    shown = [{"checkpoint_handle": pending.handle}, {"session_token": pending.tokens[2]}]
    answers = await asyncio.gather(
        *(fronts[n % 4].attempt("respond_checkpoint", **ways[n % 2], **shown[n // 2 % 2]) for n in range(20))
    )
    won = [answer for answer in answers if not answer.error]
    assert len(won) == 1
    assert {answer.error for answer in answers} == {"", "checkpoint_closed"}
    status = await fronts[1]("get_workflow_status", session_token=won[0].token, answered_checkpoints=True)
    (kept,) = status["answered_checkpoints"]
    assert kept.get("resolved_option") == won[0].result.get("resolved_option")
    events = await fronts[0].store.command("XRANGE", keys.events.key(fronts[0].project), "-", "+")
    assert sum(b"session_answer" in fields for _, fields in events) == 1


async def test_twenty_racing_yields_leave_one_checkpoint(make: Make) -> None:
    fronts = [make() for _ in range(4)]
    token = await fronts[0].at("lab", "prepare")
    shown = [(await fronts[0]("start_session", agent_id=f"w{n}", session_token=token)).token for n in range(20)]
    answers = await asyncio.gather(
        *(
            fronts[n % 4].attempt("yield_checkpoint", session_token=shown[n], checkpoint_id=("go", "maybe")[n % 2])
            for n in range(20)
        )
    )
    (won,) = [answer for answer in answers if not answer.error]
    status = await fronts[3]("get_workflow_status", session_token=token)
    assert status["active_checkpoint"]["checkpoint_id"] == won["checkpoint_id"]


async def test_a_handle_of_an_earlier_yield_does_not_answer_a_later_one(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    await pending.respond("stop")
    resumed = await sessions("resume_checkpoint", session_token=pending.handle)
    second = await sessions("yield_checkpoint", session_token=resumed.token, checkpoint_id="go")
    assert (await pending.respond("proceed")).error == "checkpoint_closed"
    assert (await sessions.refusal("present_checkpoint", checkpoint_handle=pending.handle)).error
    answer = await sessions("respond_checkpoint", checkpoint_handle=second.token, option_id="proceed")
    assert answer["resolved_option"] == "proceed"


async def test_a_token_without_a_handle_refers_to_the_checkpoint_pending_at_lookup(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    answer = await pending.respond()
    later = await sessions("yield_checkpoint", session_token=answer.token, checkpoint_id="go")
    assert await sessions.presented(pending.tokens[0], pending.handle) == "closed"
    assert await sessions.presented(pending.tokens[0], later.token) == "ok"


async def test_a_retried_yield_gets_the_same_handle(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    again = await sessions("yield_checkpoint", session_token=pending.tokens[2], checkpoint_id="go")
    assert again["checkpoint_handle"] == pending.handle
    other = await sessions.refusal("yield_checkpoint", session_token=pending.tokens[1], checkpoint_id="go")
    assert other.error == "checkpoint_active"
    # Also if it was answered meanwhile, until the answer is resumed from: nobody is asked twice.
    answer = await pending.respond()
    again = await sessions("yield_checkpoint", session_token=pending.tokens[2], checkpoint_id="go")
    assert again["checkpoint_handle"] == pending.handle
    told = await sessions.refusal("present_checkpoint", checkpoint_handle=again["checkpoint_handle"])
    assert "'go' was already resolved with option 'proceed'" in told.text
    assert (await sessions("resume_checkpoint", session_token=again.token))["resolved_option"] == "proceed"
    anew = await sessions("yield_checkpoint", session_token=pending.tokens[2], checkpoint_id="go")
    assert payload(anew.token)["seq"] > payload(answer.token)["seq"]
    await sessions("respond_checkpoint", checkpoint_handle=anew.token, option_id="stop")
    more = {"checkpoint_id": "go", "ask_again": True}
    asked = await sessions("yield_checkpoint", session_token=pending.tokens[2], **more)
    assert payload(asked.token)["seq"] > payload(anew.token)["seq"]


async def test_resuming_requires_an_answer(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    refused = await sessions.refusal("resume_checkpoint", session_token=token)
    assert refused.error == "checkpoint_closed"
    assert refused.text.startswith("Cannot resume: no resolved checkpoint")
    pending = await Pending.at(sessions)
    answer = await pending.respond("stop")
    shown = (await sessions("get_workflow_status", session_token=answer.token, answered_checkpoints=True))[
        "answered_checkpoints"
    ]
    assert [(one["checkpoint_id"], one["resumed"]) for one in shown] == [("go", False)]
    first = await sessions("resume_checkpoint", session_token=answer.token)
    again = await sessions("resume_checkpoint", session_token=answer.token)
    assert {**again.result, "session_token": ""} == {**first.result, "session_token": ""}
    assert first["checkpoint_id"] == "go"
    assert (await sessions.refusal("resume_checkpoint", session_token=first.token)).error == "checkpoint_closed"
    shown = (await sessions("get_workflow_status", session_token=answer.token, answered_checkpoints=True))[
        "answered_checkpoints"
    ]
    assert [one["resumed"] for one in shown] == [True]


async def test_moving_on_drops_an_unused_answer(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    answer = await pending.respond("stop")
    moved = await sessions(
        "next_activity", session_token=answer.token, activity_id="report", step_manifest=lab.PREPARED
    )
    assert (await sessions.refusal("resume_checkpoint", session_token=moved.token)).error == "checkpoint_closed"


async def test_the_status_does_not_grow_with_answers_by_default(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    sizes = []
    for checkpoint, option in (("go", "stop"), ("maybe", "fine"), ("timed", "first"), ("broken", "first")):
        handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id=checkpoint)).token
        await sessions("respond_checkpoint", checkpoint_handle=handle, option_id=option)
        token = (await sessions("resume_checkpoint", session_token=handle)).token
        status = await sessions("get_workflow_status", session_token=token)
        assert "answered_checkpoints" not in status
        sizes.append(len(status.text))
    assert max(sizes) - min(sizes) < 40, "the names of the last checkpoint and option"
    asked = await sessions("get_workflow_status", session_token=token, answered_checkpoints=True)
    assert len(asked["answered_checkpoints"]) == 4


async def test_another_yield_drops_an_unused_answer(sessions: Sessions) -> None:
    answer = await (await Pending.at(sessions)).respond("stop")
    asked = await sessions("yield_checkpoint", session_token=answer.token, checkpoint_id="maybe")
    shown = (await sessions("get_workflow_status", session_token=asked.token, answered_checkpoints=True))[
        "answered_checkpoints"
    ]
    assert [(one["checkpoint_id"], one["resumed"]) for one in shown] == [("go", True)]


async def test_a_call_without_handle_and_token_is_rejected(sessions: Sessions) -> None:
    for name in ("present_checkpoint", "respond_checkpoint"):
        for given in ({}, {"checkpoint_handle": ""}, {"session_token": None}):
            refused = await sessions.refusal(name, **given)
            assert refused.text == "Either checkpoint_handle or session_token must be provided."


async def test_without_a_checkpoint_there_is_nothing_to_answer(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    for name, more in (
        ("present_checkpoint", {}),
        ("respond_checkpoint", {"option_id": "x"}),
        ("respond_checkpoint", {}),
    ):
        refused = await sessions.refusal(name, checkpoint_handle=token, **more)
        assert "does not have an active checkpoint" in refused.text


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"auto_advance": False},
        {"condition_not_met": False},
        {"auto_advance": False, "condition_not_met": False},
        {"option_id": "fine", "auto_advance": True},
        {"option_id": "fine", "condition_not_met": True},
        {"auto_advance": True, "condition_not_met": True},
    ],
)
async def test_exactly_one_way_of_answering_is_required(sessions: Sessions, given: dict[str, Any]) -> None:
    """False chooses no way: nothing is resolved without checks."""
    pending = await Pending.at(sessions, "maybe")
    for shown in ({"checkpoint_handle": pending.handle}, {"session_token": pending.tokens[0]}):
        refused = await sessions.refusal("respond_checkpoint", **shown, **given)
        assert refused.text == "Exactly one of option_id, auto_advance, or condition_not_met must be provided."
    accepted = {"option_id": "fine", "auto_advance": False, "condition_not_met": False}
    assert (await sessions("respond_checkpoint", checkpoint_handle=pending.handle, **accepted))["resolved"]


@pytest.mark.parametrize(
    ("checkpoint", "given", "message"),
    [
        (
            "go",
            {"option_id": "nope"},
            "Invalid option 'nope' for checkpoint 'go'. Valid options: [proceed, stop, plain]",
        ),
        ("go", {"option_id": ""}, "Invalid option '' for checkpoint 'go'. Valid options: [proceed, stop, plain]"),
        ("go", {"auto_advance": True}, "Cannot auto-advance checkpoint 'go': missing defaultOption or autoAdvanceMs"),
        ("timeless", {"auto_advance": True}, "Cannot auto-advance checkpoint 'timeless': missing defaultOption or"),
        ("undecided", {"auto_advance": True}, "Cannot auto-advance checkpoint 'undecided': missing defaultOption or"),
        ("stubborn", {"auto_advance": True}, "Cannot auto-advance checkpoint 'stubborn': it is blocking"),
        ("broken", {"auto_advance": True}, "Default option 'nowhere' not found in checkpoint 'broken'"),
        ("go", {"condition_not_met": True}, "Cannot dismiss checkpoint 'go': it has no condition field"),
    ],
)
async def test_answers_that_do_not_fit_the_checkpoint_are_rejected(
    sessions: Sessions, checkpoint: str, given: dict[str, Any], message: str
) -> None:
    pending = await Pending.at(sessions, checkpoint)
    await pending.waited(1)
    refused = await sessions.refusal("respond_checkpoint", checkpoint_handle=pending.handle, **given)
    assert refused.text.startswith(message)
    assert refused.error == "VALIDATION_ERROR"
    assert (await sessions("get_workflow_status", session_token=pending.handle))["status"] == "blocked"


async def test_an_option_needs_the_minimum_time(make: Make) -> None:
    sessions = make(least_seconds=300)
    pending = await Pending.at(sessions)
    for option in ("proceed", "nonsense"):
        await pending.too_early("Checkpoint response too fast", 300, option)
    await pending.waited(200.6)
    await pending.too_early("Checkpoint response too fast", 300)
    # Neither reading nor joining restarts the timer.
    status = await sessions("get_workflow_status", session_token=pending.handle, answered_checkpoints=True)
    joined = await sessions("start_session", agent_id="other", session_token=status["session_token"])
    await pending.waited(99.4)
    answer = await sessions("respond_checkpoint", session_token=joined.token, option_id="proceed")
    assert answer["resolved_option"] == "proceed"


async def test_dismissing_is_possible_at_once(make: Make) -> None:
    sessions = make(least_seconds=3600)
    pending = await Pending.at(sessions, "maybe")
    assert (await pending.respond(None, condition_not_met=True))["dismissed"]


async def test_auto_advance_waits_for_its_timer(make: Make) -> None:
    sessions = make(least_seconds=3600)
    pending = await Pending.at(sessions, "timed")
    words = "Auto-advance timer not elapsed for checkpoint 'timed'"
    await pending.too_early(words, 90.6, None, auto_advance=True)
    await pending.waited(30.3)
    await pending.too_early(words, 90.6, None, auto_advance=True)
    await pending.waited(60.3)
    answer = await pending.respond(None, auto_advance=True)
    assert (answer["resolved_option"], answer["effect"]) == ("first", {"setVariable": {"level": 1}})


@pytest.mark.parametrize("checkpoint", ["nope", "", "../go", "GO"])
async def test_only_checkpoints_of_the_activity_can_be_yielded(sessions: Sessions, checkpoint: str) -> None:
    token = await sessions.at("lab", "prepare")
    refused = await sessions.refusal("yield_checkpoint", session_token=token, checkpoint_id=checkpoint)
    assert refused.text.startswith(f"Checkpoint not found: {checkpoint} in activity prepare; ")
    assert (await sessions("get_workflow_status", session_token=token))["status"] == "active"


async def test_an_impossible_checkpoint_name_is_rejected_by_field(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    refused = await sessions.refusal("yield_checkpoint", session_token=token, checkpoint_id="x" * 201)
    assert refused.text == "checkpoint_id: must be at most 200 characters"


async def test_long_names_are_truncated_in_messages(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    name = "x" * 10_000
    for tool, more in (("get_skill", {"step_id": name}), ("get_resource", {"resource_id": f"{name}/{name}"})):
        refused = await sessions.refusal(tool, session_token=token, **more)
        assert "x" * 200 in refused.text
        assert len(refused.text) < 1_000
    pending = await Pending.at(sessions)
    await pending.waited(5)
    refused = await sessions.refusal("respond_checkpoint", checkpoint_handle=pending.handle, option_id=name)
    assert refused.text.startswith("Invalid option 'x")
    assert len(refused.text) < 1_000


async def test_a_checkpoint_with_a_removed_definition_stays_pending(make: Make, tmp_path: Path) -> None:
    own = Definitions([lab.write(tmp_path)], 0)
    pending = await Pending.at(make(definitions=own))
    path = tmp_path / "lab/activities/01-prepare.toon"
    text = path.read_bytes()
    path.write_bytes(text.replace(b"id: go\n", b"id: gone\n"))
    own.refresh()
    for tool, more in (("present_checkpoint", {}), ("respond_checkpoint", {"option_id": "proceed"})):
        refused = await pending.sessions.refusal(tool, checkpoint_handle=pending.handle, **more)
        assert refused.text.startswith(
            "Checkpoint not found: go in activity prepare; did you mean 'gone'. It existed when"
        )
        assert refused.error == "RESOURCE_NOT_FOUND"
    path.write_bytes(text)
    own.refresh()
    answer = await pending.respond()
    assert answer["resolved_option"] == "proceed"


async def test_the_last_answer_is_shown_for_every_way_of_answering(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    by_handle = await pending.respond("stop")
    status = await sessions("get_workflow_status", session_token=by_handle.token)
    assert status["last_checkpoint"] == {
        "activity_id": "prepare",
        "timestamp": payload(by_handle.token)["ts"],
        "checkpoint_id": "go",
        "resolved_option": "stop",
        "resumed": False,
    }
    handle = (await sessions("yield_checkpoint", session_token=by_handle.token, checkpoint_id="maybe")).token
    by_token = await sessions("respond_checkpoint", session_token=handle, condition_not_met=True)
    status = await sessions("get_workflow_status", session_token=by_token.token, answered_checkpoints=True)
    assert status["last_checkpoint"]["checkpoint_id"] == "maybe"
    assert "resolved_option" not in status["last_checkpoint"]
    assert [(one["checkpoint_id"], one["how"], one["current_visit"]) for one in status["answered_checkpoints"]] == [
        ("go", "option_id", True),
        ("maybe", "condition_not_met", True),
    ]
    moved = await sessions("next_activity", session_token=by_token.token, activity_id="report")
    status = await sessions("get_workflow_status", session_token=moved.token, answered_checkpoints=True)
    assert [one["current_visit"] for one in status["answered_checkpoints"]] == [False, False]


async def test_checkpoint_calls_are_counted_by_outcome(make: Make) -> None:
    outcomes = ("yielded", "option_id", "auto_advance", "condition_not_met", "early", "closed")
    before = {outcome: counts.counted(CHECKPOINTS, outcome) for outcome in outcomes}

    def counted() -> dict[str, float]:
        now = {outcome: counts.counted(CHECKPOINTS, outcome) for outcome in outcomes}
        return {outcome: more for outcome in outcomes if (more := now[outcome] - before[outcome])}

    sessions = make(least_seconds=60)
    pending = await Pending.at(sessions)
    assert counted() == {"yielded": 1}
    again = await sessions("yield_checkpoint", session_token=pending.tokens[-1], checkpoint_id="go")
    assert again.token == pending.handle
    assert counted() == {"yielded": 1}, "a repeated call counts once"
    assert (await pending.respond()).error == "checkpoint_too_early"
    assert counted() == {"yielded": 1, "early": 1}
    await pending.waited(61)
    token = (await pending.respond()).token
    assert counted() == {"yielded": 1, "early": 1, "option_id": 1}
    # A late answer, and one without a checkpoint; reads are not answers.
    assert (await pending.respond()).error == "checkpoint_closed"
    await sessions.refusal("respond_checkpoint", session_token=token, option_id="proceed")
    assert counted() == {"yielded": 1, "early": 1, "option_id": 1, "closed": 2}
    for shown in (pending.handle, token):
        await sessions.refusal("present_checkpoint", session_token=shown)
    timed = await Pending.at(sessions, "timed")
    await timed.waited(91)
    assert (await timed.respond(None, auto_advance=True))["resolved"]
    assert (await (await Pending.at(sessions, "maybe")).respond(None, condition_not_met=True))["dismissed"]
    assert counted() == {
        "yielded": 3, "early": 1, "option_id": 1, "closed": 2, "auto_advance": 1, "condition_not_met": 1
    }  # fmt: skip
