"""Questions to the person behind a client (elicitation), between processes that share nothing but the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client as RealClient
from mcp.client.stdio import StdioServerParameters

from coordinator.settings import Settings
from coordinator.settings.sections.workflows import Signing, Workflows
from coordinator.store import Store
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.transport.metrics import QUESTIONS
from coordinator.transport.rounds import asking
from tests.gateway.lab import section, states
from tests.sessions import lab
from tests.support.counts import counted
from tests.support.fleets import ROOT, environment, fork_line
from tests.transport.rounds import FORM, Client, Json, Site, accepting, refusing, the_form

pytestmark = pytest.mark.anyio

REASON = {"type": "string", "maxLength": 40}


def decided(**more: Any) -> Json:
    """A workflow in which a person decides."""
    return {
        "title": "Roll-out",
        **states(
            ready={"transitions": {"ask": {"target": "asked", "executor": {"kind": "human", "queue": "ops", **more}}}},
            asked={
                "goal": "Decide about production.",
                "transitions": {
                    "approve": {"target": "done", "actor": "human", "title": "Approve it"},
                    "reject": {
                        "target": "ready",
                        "actor": "human",
                        "inputSchema": {"type": "object", "properties": {"reason": REASON}, "required": ["reason"]},
                        "output": {"reason": "$.arguments.reason"},
                    },
                    "detail": {
                        "target": "ready",
                        "actor": "human",
                        "inputSchema": {"type": "object", "properties": {"parts": {"type": "array"}}},
                    },
                    "withdraw": {"target": "ready"},
                },
            },
            done={"terminal": True},
        ),
    }


GATEWAY = section(workflows={"open": decided(), "four_eyes": decided(distinctFrom="requester")})


@pytest.fixture
async def site(tmp_path: Path, store: Store, project: str) -> AsyncIterator[Site]:
    workflows = Workflows(sessions=(str(lab.write(tmp_path / "definitions")),), min_checkpoint_response_seconds=0)
    settings = Settings(gateway=GATEWAY, workflows=workflows, request_deadline_ms=60_000)
    site = Site(tmp_path, store, project, settings)
    yield site
    await site.close()


async def opened(client: Client, app: Any, definition: str = "open") -> Json:
    """The arguments of a submit that asks for an approval."""
    result = await client(app, "workflow.start", {"definitionId": definition, "input": {}})
    started = result["structuredContent"]
    return {
        "workflowId": started["workflowId"],
        "expectedVersion": started["version"],
        "transition": "ask",
        "arguments": {},
    }


async def present(client: Client, app: Any, submit: Json) -> Json:
    result = await client(app, "workflow.get", {"workflowId": submit["workflowId"]})
    found: Json = result["structuredContent"]
    return found


async def test_a_question_of_one_process_is_answered_through_another(site: Site, store: Store, project: str) -> None:
    ana = site.client("ana", "gateway", "human")
    here, there = site.process(), site.process()
    submit = await opened(ana, here)
    before = counted(QUESTIONS, "workflow.submit", "accept")
    asked = await ana(here, "workflow.submit", submit)
    form = the_form(asked)
    assert form["message"].startswith("Roll-out (wf_")
    assert "of ops" in form["message"]
    assert "Decide about production." in form["message"]
    properties = form["requestedSchema"]["properties"]
    assert properties["decision"]["oneOf"] == [
        {"const": "approve", "title": "Approve it"},
        {"const": "reject", "title": "reject"},
    ], "a transition whose arguments fit into no form, and one of agents, are not offered"
    assert properties["reason"] == REASON
    assert form["requestedSchema"]["required"] == ["decision"]

    answers = accepting(asked, decision="approve")
    result = await ana(there, "workflow.submit", submit, **answers)
    assert result["structuredContent"]["terminal"]
    (resolved,) = [
        one for one in await AuditStore(store, Settings()).newest(project, 99) if one.type == "human.approval.resolved"
    ]
    assert (resolved.actor, resolved.payload["via"]) == ("ana", "client")
    assert counted(QUESTIONS, "workflow.submit", "accept") == before + 1


async def test_a_replayed_answer_has_one_effect(site: Site) -> None:
    ana = site.client("ana", "gateway", "human")
    here, there = site.process(), site.process()
    submit = await opened(ana, here)
    asked = await ana(here, "workflow.submit", submit)
    rejected = accepting(asked, decision="reject", reason="no")
    results = await asyncio.gather(
        *(ana(app, "workflow.submit", submit, **rejected) for app in (here, there, here, there))
    )
    assert {one["structuredContent"]["version"] for one in results} == {3}
    # The instance is back where it began; a replay must not decide the next question.
    again = await present(ana, here, submit)
    next_submit = {**submit, "expectedVersion": again["version"]}
    the_form(await ana(here, "workflow.submit", next_submit))
    late = await ana(there, "workflow.submit", submit, **rejected)
    assert late["structuredContent"]["version"] == 3
    other = accepting(asked, decision="approve")
    result = await ana(there, "workflow.submit", submit, **other)
    assert result["structuredContent"]["error"]["code"] == "request_id_reused"
    assert (await present(ana, here, submit))["version"] == 4


async def test_a_state_is_good_for_one_caller_project_tool_and_arguments(site: Site, project: str) -> None:
    ana, bo = site.client("ana", "gateway", "human"), site.client("bo", "gateway", "human")
    reader = site.client("eve", "gateway", "human", permissions=("gateway.read",))
    app = site.process()
    submit = await opened(ana, app)
    asked = await ana(app, "workflow.submit", submit)
    answer = accepting(asked, decision="approve")
    state = answer.pop("requestState")
    flipped = state[:-9] + ("A" if state[-9] != "A" else "B") + state[-8:]
    elsewhere = ana._replace(path=ana.path.replace(project, "elsewhere"))
    start = {"definitionId": "open", "input": {}}
    for client, tool, arguments, shown in (
        (ana, "workflow.submit", submit, flipped),
        (ana, "workflow.submit", submit, state[:40]),
        (ana, "workflow.submit", submit, "v1."),
        (ana, "workflow.submit", submit, ""),
        (bo, "workflow.submit", submit, state),
        (elsewhere, "workflow.submit", submit, state),
        (ana, "workflow.submit", {**submit, "transition": "withdraw"}, state),
        (ana, "workflow.submit", {**submit, "requestId": "x"}, state),
        (ana, "workflow.start", start, state),
        (ana, "gateway.home", {}, state),
        (ana.able({}), "workflow.submit", submit, state),
    ):
        error = await client.refused(app, tool, arguments, requestState=shown, **answer)
        assert error["code"] == -32602, (client, tool, arguments)
        assert error["message"] == "Invalid or expired requestState"
    assert (await reader.request(app, "tools/call", {"name": "workflow.submit", "arguments": submit}))[0] == 403
    assert (await present(ana, app, submit))["state"] == "asked"


async def test_a_state_expires(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = site.client("ana", "gateway", "human")
    app = site.process()
    submit = await opened(ana, app)
    monkeypatch.setattr(asking, "TTL_MS", 0)
    asked = await ana(app, "workflow.submit", submit)
    late = accepting(asked, decision="approve")
    assert (await ana.refused(app, "workflow.submit", submit, **late))["code"] == -32602


async def test_a_state_survives_the_rotation_of_keys(site: Site) -> None:
    ana = site.client("ana", "gateway", "human")
    old, new = "old:" + "11" * 32, "new:" + "22" * 32
    before, during, after = (
        site.process(signing=Signing(keys=keys)) for keys in ((old,), (new, old), ("third:" + "33" * 32,))
    )
    submit = await opened(ana, before)
    asked = await ana(before, "workflow.submit", submit)
    answers = accepting(asked, decision="approve")
    assert (await ana.refused(after, "workflow.submit", submit, **answers))["code"] == -32602
    assert (await ana(during, "workflow.submit", submit, **answers))["structuredContent"]["terminal"]


@pytest.mark.parametrize("given", [
    {},
    {"approval-2": {"action": "accept"}},
    {"approval-2": {"action": "accept", "content": {"decision": "withdraw"}}},
    {"approval-2": {"action": "accept", "content": {"decision": "reject", "reason": 7}}},
    {"other": {"action": "accept", "content": {"decision": "approve"}}},
])  # fmt: skip
async def test_a_form_that_is_not_filled_in_is_shown_again(site: Site, given: Json) -> None:
    ana = site.client("ana", "gateway", "human")
    app = site.process()
    submit = await opened(ana, app)
    asked = await ana(app, "workflow.submit", submit)
    again = await ana(app, "workflow.submit", submit, inputResponses=given, requestState=asked["requestState"])
    assert the_form(again) == the_form(asked)
    result = await ana(
        app, "workflow.submit", submit,
        **accepting(again, decision="approve"),
    )  # fmt: skip
    assert result["structuredContent"]["terminal"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_without_a_decision_the_answer_is_the_instance(site: Site, action: str) -> None:
    ana = site.client("ana", "gateway", "human")
    app = site.process()
    submit = await opened(ana, app)
    asked = await ana(app, "workflow.submit", submit)
    result = await ana(app, "workflow.submit", submit, **refusing(asked, action, decision="approve"))
    assert result["structuredContent"]["pendingHuman"][0]["queue"] == "ops"
    assert (await present(ana, app, submit))["state"] == "asked"


async def test_a_refusal_counts_once_and_for_its_own_approval(site: Site, store: Store, project: str) -> None:
    ana = site.client("ana", "gateway", "human")
    app = site.process()
    submit = await opened(ana, app)
    asked = await ana(app, "workflow.submit", submit)
    for _ in range(3):
        await ana(app, "workflow.submit", submit, **refusing(asked))
    for transition in ("withdraw", "ask"):
        version = (await present(ana, app, submit))["version"]
        step = {**submit, "expectedVersion": version, "transition": transition}
        await ana.able({})(app, "workflow.submit", step)
    await ana(app, "workflow.submit", submit, **refusing(asked))
    wait = {"workflowId": submit["workflowId"], "waitFor": "attention", "waitMs": 50_000}
    the_form(await ana(app, "workflow.get", wait))
    told = [one.type for one in await AuditStore(store, Settings()).newest(project, 99)]
    assert told.count("human.approval.declined") == 1


async def test_arguments_that_the_transition_requires_are_checked_as_those_of_a_submit(site: Site) -> None:
    ana = site.client("ana", "gateway", "human")
    app = site.process()
    submit = await opened(ana, app)
    asked = await ana(app, "workflow.submit", submit)
    result = await ana(app, "workflow.submit", submit, **accepting(asked, decision="reject"))
    assert result["structuredContent"]["error"]["code"] == "INPUT_SCHEMA_VIOLATION"


async def test_only_who_may_decide_is_asked_and_only_by_clients_that_can(site: Site) -> None:
    ana, agent = site.client("ana", "gateway", "human"), site.client("bot", "gateway")
    app = site.process()
    for client, definition in (
        (ana.able({}), "open"),
        (ana.able({"elicitation": {"url": {}}}), "open"),
        (ana.able({"sampling": {}}), "open"),
        (agent, "open"),
        (ana, "four_eyes"),
    ):
        result = await client(app, "workflow.submit", await opened(client, app, definition))
        assert result["resultType"] == "complete"
        assert result["structuredContent"]["pendingHuman"]
    declared: Json
    for declared in (FORM, {"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}, "roots": {}}):
        the_form(await ana.able(declared)(app, "workflow.submit", await opened(ana, app)))


async def test_both_paths_ask_the_same(site: Site) -> None:
    ana = site.client("ana", "gateway", "human")
    fast, slow = site.process(), site.process()
    slow.fast = False
    asked = [await ana(app, "workflow.submit", await opened(ana, app)) for app in (fast, slow)]
    assert fast.fast_path.hits, fast.fast_path.misses
    forms = [the_form(one)["requestedSchema"] for one in asked]
    assert forms[0] == forms[1]
    assert asked[0].keys() == asked[1].keys()
    assert asked[0]["_meta"] == asked[1]["_meta"]


async def yielded(client: Client, app: Any) -> tuple[str, str]:
    """A session's token, and the handle of its checkpoint."""
    started = await client(app, "start_session", {"workflow_id": "lab", "agent_id": "worker"})
    token = started["structuredContent"]["session_token"]
    moved = await client(app, "next_activity", {"session_token": token, "activity_id": "prepare"})
    token = moved["structuredContent"]["session_token"]
    waiting = await client(app, "yield_checkpoint", {"session_token": token, "checkpoint_id": "go"})
    return token, waiting["structuredContent"]["checkpoint_handle"]


async def test_a_checkpoint_is_presented_to_the_user_who_answers_it_once(site: Site) -> None:
    one = site.client("bot", "sessions", permissions=("sessions",))
    here, there = site.process(), site.process()
    token, handle = await yielded(one, here)
    asked: Json = {}
    arguments: Json = {}
    for arguments in ({"checkpoint_handle": handle}, {"session_token": token}):
        asked = await one(here, "present_checkpoint", arguments)
        form = the_form(asked)
        assert form["message"] == "Ready to go: shall we?\nProceed: Yes, go on"
        assert [option["const"] for option in form["requestedSchema"]["properties"]["option"]["oneOf"]] == [
            "proceed",
            "stop",
            "plain",
        ]
        result = await one(there, "present_checkpoint", arguments, **refusing(asked))
        assert "respond" not in result["content"][0]["text"]
        assert "checkpoint_handle: " in result["content"][0]["text"]
    chosen = accepting(asked, option="proceed")
    result = await one(there, "present_checkpoint", arguments, **chosen)
    assert result["structuredContent"]["resolved_option"] == "proceed"
    replayed = await one(here, "present_checkpoint", arguments, **chosen)
    assert replayed["structuredContent"]["error"]["code"] == "checkpoint_closed"
    status = await one(here, "get_workflow_status", {"session_token": token, "answered_checkpoints": True})
    (kept,) = status["structuredContent"]["answered_checkpoints"]
    assert (kept["how"], kept["via"], kept["resolved_option"]) == ("option_id", "client", "proceed")
    resumed = await one(here, "resume_checkpoint", {"session_token": token})
    assert resumed["structuredContent"]["resolved_option"] == "proceed"


async def test_a_checkpoint_is_text_for_readers_and_for_clients_without_forms(site: Site) -> None:
    one = site.client("bot", "sessions", permissions=("sessions",))
    reader = site.client("eve", "sessions", permissions=("sessions.read",))
    app = site.process()
    _, handle = await yielded(one, app)
    for client in (reader, one.able({})):
        result = await client(app, "present_checkpoint", {"checkpoint_handle": handle})
        assert result["content"][0]["text"].startswith("id: go")


async def test_a_real_client_on_stdio_passes_the_question_on(tmp_path: Path, redis_url: str, project: str) -> None:
    folder = str(lab.write(tmp_path / "own"))
    env = {"FLEET_REDIS_URL": redis_url, "FLEET_SESSION_WORKFLOWS": folder}
    command, *arguments = fork_line("stdio", "--toolset", "sessions", "--project", project)
    server = StdioServerParameters(
        command=command,
        args=arguments,
        env=environment(**env, FLEET_MIN_CHECKPOINT_RESPONSE_SECONDS="0"),
        cwd=str(ROOT),
    )
    shown: list[str] = []

    async def show(context: Any, params: Any) -> types.ElicitResult:
        shown.append(params.message)
        return types.ElicitResult(action="accept", content={"option": "stop"})

    async with RealClient(server, mode="2026-07-28", elicitation_callback=show, read_timeout_seconds=60) as client:

        async def call(tool: str, **arguments: Any) -> Json:
            found: Json = (await client.call_tool(tool, arguments)).structured_content
            return found

        started = await call("start_session", workflow_id="lab")
        moved = await call("next_activity", session_token=started["session_token"], activity_id="prepare")
        waiting = await call("yield_checkpoint", session_token=moved["session_token"], checkpoint_id="go")
        answered = await call("present_checkpoint", checkpoint_handle=waiting["checkpoint_handle"])
    assert answered["resolved_option"] == "stop"
    assert len(shown) == 1
