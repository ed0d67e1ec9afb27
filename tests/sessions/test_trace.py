"""The trace: events, trace tokens, and invalid tokens."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from coordinator.store import keys, signing_keys
from coordinator.toolsets.sessions.rules import trace, validation
from tests.sessions.client import Sessions
from tests.sessions.conftest import Make
from tests.sessions.shown import payload, segment, unsigned

SEGMENT_BYTES = 500_000
"""As in move.lua."""

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def names(events: list[Json]) -> list[str]:
    return [event["name"] for event in events]


async def whole(sessions: Sessions, token: str) -> list[Json]:
    answer = await sessions("get_trace", session_token=token)
    assert (answer["source"], answer["tracing_enabled"]) == ("memory", True)
    assert answer["event_count"] == len(answer["events"])
    assert answer["traceId"] == payload(token)["sid"]
    assert answer["session_token"] == answer.token
    events: list[Json] = answer["events"]
    return events


async def test_each_call_is_an_event_with_the_tokens_position(sessions: Sessions) -> None:
    began = time.time()
    start = await sessions.start("lab", "orchestrator")
    moved = await sessions("next_activity", session_token=start, activity_id="prepare")
    worker = await sessions("start_session", agent_id="worker-1", session_token=moved.token)
    read = await sessions("get_activity", session_token=worker.token)
    events = await whole(sessions, read.token)
    assert names(events) == ["start_session", "next_activity", "start_session", "get_activity"]
    assert [(event["act"], event["aid"]) for event in events] == [
        ("", "orchestrator"),
        ("", "orchestrator"),
        ("prepare", "worker-1"),
        ("prepare", "worker-1"),
    ]
    assert list(events[0]) == ["traceId", "spanId", "name", "ts", "ms", "s", "wf", "act", "aid"]
    assert {event["s"] for event in events} == {"ok"}
    assert {event["wf"] for event in events} == {"lab"}
    assert {event["traceId"] for event in events} == {payload(start)["sid"]}
    assert len({event["spanId"] for event in events}) == 4
    assert "agent_id 'worker-1' does not match" in events[2]["vw"][0]
    assert [event["spanId"] for event in await whole(sessions, read.token)] == [event["spanId"] for event in events]
    assert not any(part in json.dumps(events) for part in (start, moved.token, "session_token"))
    times = [event["ts"] for event in events]
    assert sorted(times) == times
    assert int(began) <= times[0] <= times[-1] <= time.time()


def test_an_event_has_the_duration_of_its_call() -> None:
    kept = trace.entry("get_activity", 0.01234, "prepare", "worker-1").decode()
    (event,) = trace.events("sid", "lab", "", 0, [f'[1000,"","",{kept}]'])
    assert event.ms == 12.3


async def test_reads_of_trace_and_status_are_not_traced(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    await sessions("get_workflow_status", session_token=token)
    await whole(sessions, token)
    assert names(await whole(sessions, token)) == ["start_session"]


async def test_calls_by_handle_are_events(sessions: Sessions) -> None:
    handle = (
        await sessions("yield_checkpoint", session_token=await sessions.at("lab", "prepare"), checkpoint_id="go")
    ).token
    await sessions("present_checkpoint", checkpoint_handle=handle)
    await sessions.refusal("respond_checkpoint", checkpoint_handle=handle, option_id="nope")
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")
    events = (await whole(sessions, answer.token))[2:]
    assert names(events) == ["yield_checkpoint", "present_checkpoint", "respond_checkpoint", "respond_checkpoint"]
    assert [event["s"] for event in events] == ["ok", "ok", "error", "ok"]
    assert events[2]["err"].startswith("Invalid option 'nope'")


async def test_failures_are_events_with_their_reason(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    await sessions.refusal("next_activity", session_token=token, activity_id="nowhere")
    await sessions.refusal("get_resource", session_token=token, resource_id="99")
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go")).token
    await sessions.refusal("get_skills", session_token=token)
    await sessions.refusal("next_activity", session_token=token, activity_id="report")
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="stop")
    failed = [event for event in await whole(sessions, answer.token) if event["s"] == "error"]
    assert [(event["name"], event["err"]) for event in failed] == [
        ("next_activity", "Activity not found: nowhere; there are: prepare, measure, report"),
        ("get_resource", "Resource not found: 99 in workflow lab; there are: 00, 01, 07"),
        ("get_skills", "Blocked: Active checkpoint 'go' on activity 'prepare'"),
        ("next_activity", "Cannot transition to 'report': Active checkpoint 'go' on activity 'prepare'"),
    ]
    assert not any("vw" in event for event in failed)


async def test_warnings_are_in_the_trace(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    moved = await sessions("next_activity", session_token=token, activity_id="report")
    behind = await sessions("get_activity", session_token=token)
    events = await whole(sessions, behind.token)
    assert events[2]["vw"] == moved.warnings
    assert events[3]["vw"] == behind.warnings


async def test_the_origin_of_a_session_is_in_the_trace(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    adopted = await sessions("start_session", session_token=unsigned(token))
    events = await whole(sessions, adopted.token)
    assert events[1]["err"].startswith("adopted:")
    assert events[1]["s"] == "ok"
    recovered = await sessions("start_session", session_token="nothing", workflow_id="lab")
    events = await whole(sessions, recovered.token)
    assert events[0]["err"].startswith("recovered:")
    assert events[0]["s"] == "ok"


async def test_each_event_is_in_one_trace_token(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    segments = []
    for activity in ("prepare", "measure", "report"):
        token = (await sessions("get_skills", session_token=token)).token
        moved = await sessions("next_activity", session_token=token, activity_id=activity)
        segments.append(moved.meta["trace_token"])
        token = moved.token
    shown = [segment(one) for one in segments]
    assert [(one["act"], one["from"], one["to"], one["n"]) for one in shown] == [
        ("prepare", 0, 2, 2), ("measure", 2, 4, 2), ("report", 4, 6, 2)
    ]  # fmt: skip
    assert [names(one["events"]) for one in shown] == [
        ["start_session", "get_skills"], ["next_activity", "get_skills"], ["next_activity", "get_skills"]
    ]  # fmt: skip
    everything = await whole(sessions, token)
    resolved = await sessions("get_trace", session_token=token, trace_tokens=segments)
    assert (resolved["source"], resolved["event_count"]) == ("tokens", 6)
    assert "tracing_enabled" not in resolved
    assert resolved["events"] == everything[:6]
    assert names(everything[6:]) == ["next_activity"]


async def test_racing_transitions_split_the_events(make: Make) -> None:
    fronts = [make() for _ in range(4)]
    token = await fronts[0].at("lab", "prepare")
    shown = [(await fronts[0]("start_session", agent_id=f"w{n}", session_token=token)).token for n in range(12)]
    moved = await asyncio.gather(
        *(fronts[n % 4]("next_activity", session_token=shown[n], activity_id=("measure", "report")[n % 2])
          for n in range(12))
    )  # fmt: skip
    spans = [
        event["spanId"] for one in moved if "trace_token" in one.meta
        for event in segment(one.meta["trace_token"])["events"]
    ]  # fmt: skip
    everything = [event["spanId"] for event in await whole(fronts[0], moved[0].token)]
    assert len(spans) == len(set(spans))
    first = segment((await fronts[1]("next_activity", session_token=token, activity_id="prepare")).meta["trace_token"])
    assert sorted(spans + [event["spanId"] for event in first["events"]]) == sorted(
        set(everything) - {event["spanId"] for event in (await whole(fronts[0], token))[:1]}
    )


async def test_invalid_trace_tokens_do_not_affect_valid_ones(sessions: Sessions) -> None:
    start = await sessions.start("lab")
    moved = await sessions("next_activity", session_token=start, activity_id="prepare")
    good = moved.meta["trace_token"]
    bad = ["invalid.token.here", "none", moved.token, unsigned(good), good[1:], good[:-1], "x" * 3_000_000]
    answer = await sessions("get_trace", session_token=moved.token, trace_tokens=[*bad, good])
    assert names(answer["events"]) == ["start_session"]
    assert [error.split(".")[0].removeprefix("Invalid trace token: ") for error in answer["token_errors"]] == [
        "malformed (missing signature segment)",
        "malformed (missing signature segment)",
        "HMAC signature verification failed",
        "HMAC signature verification failed",
        "HMAC signature verification failed",
        "HMAC signature verification failed",
        f"longer than {trace.MAX_TRACE_TOKEN} characters",
    ]
    assert all(error.startswith("Invalid trace token") for error in answer["token_errors"])


async def test_an_empty_list_of_tokens_is_as_none(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    whole = await sessions("get_trace", session_token=token)
    answer = await sessions("get_trace", session_token=token, trace_tokens=[])
    assert (answer["source"], answer["tracing_enabled"], answer["events"]) == ("memory", True, whole["events"])
    assert whole["events"]


async def test_too_many_tokens_are_rejected(sessions: Sessions) -> None:
    refused = await sessions.refusal("get_trace", session_token=await sessions.start("lab"), trace_tokens=["x"] * 501)
    assert refused.text.startswith("trace_tokens: ")


async def test_a_trace_token_is_not_a_session_token(sessions: Sessions) -> None:
    moved = await sessions("next_activity", session_token=await sessions.start("lab"), activity_id="prepare")
    refused = await sessions.refusal("get_skills", session_token=moved.meta["trace_token"])
    assert refused.error == "invalid_session_token"


async def test_a_trace_token_belongs_to_its_project(sessions: Sessions, elsewhere: Sessions) -> None:
    moved = await sessions("next_activity", session_token=await sessions.start("lab"), activity_id="prepare")
    given = [moved.meta["trace_token"]]
    assert (await sessions("get_trace", session_token=moved.token, trace_tokens=given))["event_count"] == 1
    answer = await elsewhere("get_trace", session_token=await elsewhere.start("lab"), trace_tokens=given)
    assert answer["event_count"] == 0
    assert answer["token_errors"][0].startswith("Invalid trace token: HMAC signature verification failed")


async def test_a_trace_token_of_a_newer_key_refreshes_the_keys(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "RETRY_SECONDS", 0.0)
    here, there = make(), make()
    old = await here.start("lab")
    name = keys.signing_keys.key(keys.FLEET)
    try:
        await here.store.command("HSET", name, "newest", b"99999999999999:" + b"7" * 64)
        moved = await there("next_activity", session_token=old, activity_id="prepare")
        answer = await here("get_trace", session_token=old, trace_tokens=[moved.meta["trace_token"]])
        assert names(answer["events"]) == ["start_session"]
        assert "token_errors" not in answer
    finally:
        await here.store.command("HDEL", name, "newest")


async def test_of_too_large_a_trace_the_newest_events_are_shown(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    key = keys.session_trace.key(sessions.project, payload(token)["sid"])
    long = json.dumps([0, "", "", ["long", 1.0, "prepare", "a", ["x" * 9_000]]])
    await sessions.store.command("RPUSH", key, *[long] * 400)
    last = await sessions("get_skills", session_token=token)
    events = await whole(sessions, last.token)
    assert names(events) == ["long"] * (len(events) - 1) + ["get_skills"]
    assert 1_900_000 < len(json.dumps(events)) < 2_100_000
    cuts = []
    for _ in range(3):
        moved = await sessions("next_activity", session_token=last.token, activity_id="prepare")
        cut = segment(moved.meta["trace_token"])
        cuts.append((cut["from"], cut["to"]))
        assert len(moved.meta["trace_token"]) < trace.MAX_TRACE_TOKEN
        last = moved
    assert [begin for begin, _ in cuts] == [1, cuts[0][1], cuts[1][1]], "no gaps"
    # Events with these numbers also have these names.
    assert events[-1]["spanId"] == (await whole(sessions, last.token))[-4]["spanId"]


async def test_the_size_limit_of_a_trace_is_exact(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    key = keys.session_trace.key(sessions.project, payload(token)["sid"])

    def event(size: int) -> str:
        empty = json.dumps([0, "", "", ["long", 1.0, "prepare", "a", [""]]])
        return empty.replace('[""]', f'["{"x" * (size - len(empty))}"]')

    await sessions.store.command("RPUSH", key, *[event(10_000)] * 200)
    await sessions.store.command("LTRIM", key, -200, -1)
    assert len(await whole(sessions, token)) == 200
    await sessions.store.command("LSET", key, -1, event(10_001))
    assert len(await whole(sessions, token)) == 199
    await sessions.store.command("HSET", keys.session.key(sessions.project, payload(token)["sid"]), "tc", 0)
    await sessions.store.command("LSET", key, 50, event(10_001))
    for activity, first, past in (("measure", 0, 50), ("report", 50, 99)):
        token = (moved := await sessions("next_activity", session_token=token, activity_id=activity)).token
        cut = segment(moved.meta["trace_token"])
        assert (cut["from"], cut["to"]) == (first, past)


async def test_a_long_trace_is_trimmed_and_split_into_several_tokens(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    key = keys.session_trace.key(sessions.project, payload(token)["sid"])
    event = await sessions.store.command("LINDEX", key, -1)
    for _ in range(5):
        await sessions.store.command("RPUSH", key, *[event] * 999)
    for length in (4998, 4999, 5000, 5000, 5000):
        token = (await sessions("get_skills", session_token=token)).token
        assert await sessions.store.command("LLEN", key) == length
    oldest = (await whole(sessions, token))[0]
    cuts = []
    for _ in range(3):
        moved = await sessions("next_activity", session_token=token, activity_id="prepare")
        cut = segment(moved.meta["trace_token"])
        cuts.append((cut["from"], cut["to"], cut["n"]))
        if len(cuts) == 1:
            assert cut["events"][0]["spanId"] == oldest["spanId"]
            again = await sessions("next_activity", session_token=token, activity_id="prepare")
            assert segment(again.meta["trace_token"])["to"] == cut["to"]
        token = moved.token
    assert cuts == [(2, 1002, 1000), (1002, 2002, 1000), (2002, 3002, 1000)]


async def test_the_trace_has_all_warnings_and_truncates_long_ones(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    manifest = [{"step_id": f"step-{n}", "output": ""} for n in range(900)]
    moved = await sessions("next_activity", session_token=token, activity_id="report", step_manifest=manifest)
    assert max(map(len, moved.warnings)) > trace.MAX_TEXT
    assert len(moved.warnings) > 50
    (event,) = (await whole(sessions, moved.token))[2:]
    assert event["vw"] == [warning[: trace.MAX_TEXT] for warning in moved.warnings]
    # The most and longest warnings still fit into a trace token together with other events.
    longest = trace.entry("next_activity", 1.0, "a", "b", ["\x01" * trace.MAX_TEXT] * (validation.MAX_WARNINGS + 1))
    assert len(longest) < SEGMENT_BYTES / 2
