"""start_session: fresh, inherited, adopted, recovered, and as a child."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from coordinator.settings.sections.auth import Auth
from coordinator.store import keys
from coordinator.toolsets.sessions.rules import tokens
from tests.sessions.client import Answer, Sessions, fresh_id
from tests.sessions.conftest import Make
from tests.sessions.shown import forged, payload, unsigned

pytestmark = pytest.mark.anyio

ADOPTED = "had an invalid signature"
RECOVERED = "was NOT inherited"


async def resume(sessions: Sessions, token: str, agent: str = "orchestrator", **more: str) -> Answer:
    return await sessions("start_session", agent_id=agent, session_token=token, **more)


async def test_a_fresh_session_has_the_documented_fields(sessions: Sessions) -> None:
    answer = await sessions("start_session", agent_id="worker-1", workflow_id="lab")
    carried = payload(answer.token)
    assert carried | {"ts": 0, "sid": ""} == {
        "wf": "lab", "act": "", "skill": "", "cond": "", "v": "1.2.3", "seq": 0, "ts": 0, "sid": "", "aid": "worker-1"
    }  # fmt: skip
    assert tokens.SID.fullmatch(carried["sid"])
    assert "inherited" not in answer
    assert "warning" not in answer


async def test_the_workflow_is_meta_by_default(sessions: Sessions) -> None:
    answer = await sessions("start_session", agent_id="a")
    assert answer["workflow"]["id"] == payload(answer.token)["wf"] == "meta"
    assert payload((await sessions("start_session")).token)["aid"] == "orchestrator"


@pytest.mark.parametrize(
    ("workflow", "hint"),
    [
        *((name, "there are: annex, bare, lab, meta") for name in ("nothing", "LAB", "{!fleet}")),
        *((name, "did you mean 'lab'?") for name in ("../lab", "lab/..", "lab\n")),
    ],
)
async def test_an_unknown_workflow_is_named(sessions: Sessions, workflow: str, hint: str) -> None:
    refused = await sessions.refusal("start_session", workflow_id=workflow)
    assert refused.text == f"Workflow not found: {workflow}; {hint}"
    assert refused.error == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"agent_id": " "}, "agent_id"),
        ({"agent_id": "x" * 201}, "agent_id"),
        ({"workflow_id": "x" * 201}, "workflow_id"),
        ({"fence_token": 1}, "fence_token"),
        ({"item_id": "1234"}, "item_id"),
        ({"item_id": "*"}, "item_id"),
    ],
)
async def test_invalid_arguments_are_named(sessions: Sessions, arguments: dict[str, object], field: str) -> None:
    refused = await sessions.refusal("start_session", **arguments)
    assert refused.error == "VALIDATION_ERROR"
    assert refused.text.startswith(f"{field}: ")


async def test_an_inherited_session_keeps_everything_but_the_agent(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    token = (await sessions("get_skill", session_token=token)).token
    token = (
        await sessions("next_activity", session_token=token, activity_id="prepare", transition_condition="default")
    ).token
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    answer = await resume(sessions, handle, "worker-1", workflow_id="bare")
    assert answer["inherited"] is True
    assert answer["workflow"]["id"] == "lab"
    before, after = payload(handle), payload(answer.token)
    assert before["skill"] == "leading"
    assert (before["cond"], before["bcp"], before["act"]) == ("default", "go", "prepare")
    changed = {"aid": "worker-1", "seq": before["seq"] + 1, "ts": after["ts"]}
    assert after == before | changed


async def test_another_agent_gets_a_warning(sessions: Sessions) -> None:
    token = await sessions.start("lab", "orchestrator")
    same = await resume(sessions, token)
    assert "warning" not in same
    assert "validation" not in same.meta
    other = await resume(sessions, token, "worker-1")
    assert (
        "agent_id 'worker-1' does not match the inherited session token's agent_id 'orchestrator'" in other["warning"]
    )
    assert other.meta["validation"] == {"status": "warning", "warnings": [other["warning"]]}


async def test_a_session_that_moved_on_is_joined_at_its_position(sessions: Sessions) -> None:
    early = await sessions.at("lab", "prepare")
    late = (await sessions("next_activity", session_token=early, activity_id="report")).token
    answer = await resume(sessions, early)
    assert payload(answer.token)["act"] == "report"
    assert "moved on to 'report'" in answer["warning"]
    assert payload(answer.token)["seq"] > payload(late)["seq"]


async def test_a_token_of_a_lost_key_is_adopted_if_its_session_is_known(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    answer = await resume(sessions, unsigned(handle), "worker-1")
    assert (answer["inherited"], answer["adopted"]) == (True, True)
    assert ADOPTED in answer["warning"]
    assert "Original error: Invalid session token: HMAC signature verification failed" in answer["warning"]
    assert answer.meta["validation"]["warnings"] == [answer["warning"]]
    before, after = payload(handle), payload(answer.token)
    kept = {name: after[name] for name in ("sid", "act", "bcp", "cond", "v", "wf")}
    assert kept == {name: before[name] for name in kept}
    assert after["seq"] > before["seq"]
    assert (await sessions("respond_checkpoint", session_token=answer.token, option_id="proceed"))["resolved"]


async def test_adoption_trusts_only_the_session_id(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    wrong = forged(handle, act="report", bcp="", seq=10**9, v="9.9.9", psid="made-up", skill="x")
    after = payload((await resume(sessions, wrong)).token)
    assert (after["act"], after["bcp"], after["v"], after["skill"]) == ("prepare", "go", "1.2.3", "")
    assert after["seq"] < 10
    assert "psid" not in after


def elsewhere_made(token: str, **changes: object) -> str:
    """The token as issued by another fleet: session and key are unknown here."""
    return forged(unsigned(token), sid=fresh_id(), **changes)


async def test_a_token_of_another_fleet_is_adopted_with_its_state(sessions: Sessions) -> None:
    """Position, condition, checkpoint and parent are adopted; the checkpoint's gate and timers hold."""
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="timed")).token
    parent = {"psid": fresh_id(), "pwf": "annex", "pact": "wait", "pv": "0.1.0"}
    foreign = elsewhere_made(handle, cond="default", skill="working", seq=41, **parent)
    answer = await resume(sessions, foreign, "worker-1", workflow_id="bare")
    assert (answer["inherited"], answer["adopted"], "recovered" in answer) == (True, True, False)
    assert answer["workflow"]["id"] == "lab"
    assert "was not known here" in answer["warning"]
    assert "Original error: Invalid session token: HMAC signature verification failed" in answer["warning"]
    assert answer.meta["validation"]["warnings"] == [answer["warning"]]
    before, after = payload(foreign), payload(answer.token)
    assert after == before | {"aid": "worker-1", "seq": 42, "ts": after["ts"]}

    shown = await sessions("get_workflow_status", session_token=answer.token)
    assert (shown["status"], shown["current_activity"]) == ("blocked", "prepare")
    assert shown["active_checkpoint"]["checkpoint_id"] == "timed"
    assert shown["parent"]["session_id"] == parent["psid"]
    for gated in ("get_activity", "get_skills", "resume_checkpoint"):
        assert (await sessions.refusal(gated, session_token=answer.token)).error == "checkpoint_active", gated
    refused = await sessions.refusal("next_activity", session_token=answer.token, activity_id="report")
    assert refused.error == "checkpoint_active"
    early = await sessions.refusal("respond_checkpoint", checkpoint_handle=answer.token, auto_advance=True)
    assert early.error == "checkpoint_too_early"
    answered = await sessions("respond_checkpoint", checkpoint_handle=answer.token, option_id="second")
    resumed = await sessions("resume_checkpoint", session_token=answered.token)
    moved = await sessions("next_activity", session_token=resumed.token, activity_id="report")
    assert payload(moved.token)["act"] == "report"
    # From now on it is known: only the session id of the same foreign token is used.
    again = await resume(sessions, foreign, "worker-1")
    assert (payload(again.token)["act"], again["adopted"]) == ("report", True)
    events = (await sessions("get_trace", session_token=again.token))["events"]
    assert events[0]["err"].startswith("adopted:")


async def test_a_token_of_another_fleet_is_not_valid_for_calls(sessions: Sessions) -> None:
    foreign = elsewhere_made(await sessions.at("lab", "prepare"))
    refused = await sessions.refusal("get_activity", session_token=foreign)
    assert refused.error == "invalid_session_token"


async def test_of_racing_adoptions_one_makes_the_session(make: Make) -> None:
    fronts = [make() for _ in range(2)]
    foreign = elsewhere_made(await fronts[0].at("lab", "prepare"))
    answers = await asyncio.gather(*(resume(fronts[n % 2], foreign, f"worker-{n}") for n in range(8)))
    assert {payload(answer.token)["sid"] for answer in answers} == {payload(foreign)["sid"]}
    assert len({payload(answer.token)["seq"] for answer in answers}) == 8
    assert all(answer["adopted"] for answer in answers)


@pytest.mark.parametrize(
    "changes",
    [
        {"act": "x" * 201}, {"cond": "x" * 1001}, {"seq": 2**31}, {"skill": "x" * 201}, {"act": "", "bcp": "go"},
        {"psid": "{}"}, {"v": "x" * 201},
    ],
)  # fmt: skip
async def test_implausible_tokens_are_recovered(sessions: Sessions, changes: dict[str, object]) -> None:
    foreign = elsewhere_made(await sessions.at("lab", "prepare"), **changes)
    assert (await resume(sessions, foreign, workflow_id="bare"))["recovered"] is True


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_where_callers_are_authenticated_no_session_is_adopted(
    make: Make, mode: Literal["optional", "required"]
) -> None:
    """Whoever knows the id of another caller's session, which is in the feed, gets no token for it."""
    front = make(auth=Auth(mode=mode))
    token = await front.at("lab", "prepare")
    handle = (await front("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    known = payload(handle)["sid"]
    gone = await front.at("lab", "prepare")
    await front.store.command("DEL", keys.session.key(front.project, payload(gone)["sid"]))
    guessed = forged(handle, act="", skill="", cond="", v="", seq=0, ts=0, aid="x", bcp=None)
    attempts = (unsigned(handle), unsigned(token), guessed, elsewhere_made(handle), gone)
    for shown in attempts:
        answer = await resume(front, shown, "worker-1", workflow_id="bare")
        assert answer["recovered"] is True
        assert not {"inherited", "adopted"} & answer.result.keys()
        assert RECOVERED in answer["warning"]
        assert answer["workflow"]["id"] == "bare"
        begun = payload(answer.token)
        assert begun["sid"] not in (known, payload(gone)["sid"])
        assert (begun["seq"], begun["act"], begun.get("bcp")) == (0, "", None)
        refused = await front.refusal("respond_checkpoint", session_token=answer.token, option_id="proceed")
        assert refused.error == "checkpoint_closed"
    assert (await front("respond_checkpoint", checkpoint_handle=handle, option_id="proceed"))["resolved"]


async def test_a_valid_token_of_a_deleted_session_is_adopted(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    await sessions.store.command("DEL", keys.session.key(sessions.project, payload(token)["sid"]))
    refused = await sessions.refusal("get_workflow", session_token=token)
    assert refused.error == "invalid_session_token"
    assert refused.text.startswith("Invalid session token: its session is unknown in this project")
    answer = await resume(sessions, token)
    assert answer["adopted"] is True
    assert (payload(answer.token)["sid"], payload(answer.token)["act"]) == (payload(token)["sid"], "prepare")


async def test_a_token_with_the_wrong_workflow_is_recovered(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    assert (await resume(sessions, forged(token, wf="bare")))["recovered"] is True
    refused = await sessions.refusal("start_session", session_token=forged(token, wf="gone"))
    assert refused.text == "Workflow not found: gone; there are: annex, bare, lab, meta"


@pytest.mark.parametrize("damage", ["", "x", "no-dot-at-all", "e30.00", "bm90IGpzb24.00", "a.b.c", "x" * 20_000])
async def test_a_damaged_token_is_recovered_with_the_reason(sessions: Sessions, damage: str) -> None:
    if damage == "":
        damage = (await sessions.start("lab"))[:120]
    answer = await resume(sessions, damage, workflow_id="lab")
    assert answer["recovered"] is True
    assert answer["workflow"]["id"] == "lab"
    assert "Original error: Invalid session token: " in answer["warning"]


async def test_a_token_of_another_project_is_rejected(sessions: Sessions, elsewhere: Sessions) -> None:
    token = await sessions.start("lab")
    more: dict[str, dict[str, object]] = {
        "next_activity": {"activity_id": "prepare"},
        "yield_checkpoint": {"checkpoint_id": "go"},
        "respond_checkpoint": {"option_id": "proceed"},
    }
    for name in ("get_skills", "get_workflow_status", "get_trace", "present_checkpoint", "resume_checkpoint", *more):
        refused = await elsewhere.refusal(name, session_token=token, **more.get(name, {}))
        assert refused.error == "invalid_session_token", name


async def test_front_ends_verify_each_others_tokens(make: Make) -> None:
    here, there = make(), make()
    token = await here.start("lab")
    answer = await there("start_session", session_token=token)
    assert answer["inherited"] is True
    assert "adopted" not in answer
    assert (await here("get_skills", session_token=answer.token)).token


async def test_a_child_knows_its_parent(sessions: Sessions) -> None:
    parent = await sessions.at("lab", "prepare")
    answer = await sessions("start_session", agent_id="worker-1", workflow_id="annex", parent_session_token=parent)
    above, carried = payload(parent), payload(answer.token)
    assert carried["sid"] != above["sid"]
    assert {name: carried[name] for name in ("psid", "pwf", "pact", "pv")} == {
        "psid": above["sid"], "pwf": "lab", "pact": "prepare", "pv": "1.2.3"
    }  # fmt: skip
    status = await sessions("get_workflow_status", session_token=answer.token)
    assert status["parent"] == {
        "session_id": above["sid"], "workflow_id": "lab", "activity": "prepare", "version": "1.2.3"
    }  # fmt: skip
    again = await resume(sessions, unsigned(status["session_token"]), "worker-1")
    assert payload(again.token)["psid"] == above["sid"]
    seen = await sessions("get_trace", session_token=parent)
    assert [(one["name"], one.get("vw")) for one in seen["events"]][-1] == ("start_session", ["annex"])
    own = await sessions("get_trace", session_token=answer.token)
    assert [event.get("psid") for event in own["events"]] == [above["sid"], None]


async def test_an_invalid_parent_leaves_the_child_unlinked_with_a_warning(sessions: Sessions) -> None:
    parent = await sessions.start("lab")
    bad = {
        "nothing": "malformed", unsigned(parent): "HMAC", forged(parent, act="x"): "HMAC",
        "x" * 20_000: "longer than", parent: "its session is unknown in this project",
    }  # fmt: skip
    await sessions.store.command("DEL", keys.session.key(sessions.project, payload(parent)["sid"]))
    for token, reason in bad.items():
        answer = await sessions("start_session", workflow_id="annex", parent_session_token=token)
        assert "psid" not in payload(answer.token)
        assert answer["warning"].startswith(f"The provided parent_session_token could not be used ({reason}")
        assert answer.meta["validation"]["warnings"] == [answer["warning"]]


async def test_a_missing_parent_gets_no_warning(sessions: Sessions) -> None:
    for more in ({}, {"parent_session_token": ""}, {"parent_session_token": None}):
        assert "warning" not in await sessions("start_session", workflow_id="annex", **more)


async def test_with_a_token_the_parent_is_ignored(sessions: Sessions) -> None:
    parent, token = await sessions.start("lab"), await sessions.start("bare")
    answer = await sessions("start_session", session_token=token, parent_session_token=parent)
    assert "psid" not in payload(answer.token)


async def test_reading_a_checkpoint_renews_the_session(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    key = keys.session.key(sessions.project, payload(token)["sid"])
    await sessions.store.command("HSET", key, "x", 0)
    await sessions.store.command("PEXPIRE", key, 3_600_000)
    await sessions("present_checkpoint", checkpoint_handle=handle)
    assert await sessions.store.command("PTTL", key) > 3_600_000


async def test_a_session_is_retained_from_its_last_call(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    key = keys.session.key(sessions.project, payload(token)["sid"])
    assert 29.9 < await sessions.store.command("PTTL", key) / 86_400_000 <= 30
    # Two days later: renewals are extra writes, so they are made at most once per fiftieth of the retention.
    renewed = int(await sessions.store.command("HGET", key, "x"))
    await sessions.store.command("HSET", key, "x", renewed - 2 * 86_400_000)
    for family in (keys.session, keys.session_trace):
        await sessions.store.command("PEXPIRE", family.key(sessions.project, payload(token)["sid"]), 3_600_000)
    token = (await sessions("get_skills", session_token=token)).token
    for family in (keys.session, keys.session_trace):
        left = await sessions.store.command("PTTL", family.key(sessions.project, payload(token)["sid"]))
        assert 29.9 < left / 86_400_000 <= 30
