"""What real tools, workers and operators do is on the feed: each kind of event, provoked over a running fleet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from coordinator.feed.kinds import GROUPS, NAMES
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.embedded.server import known_url
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.store.flows import FlowStore
from tests.gateway.fleet import GatewayFleet, link
from tests.support.fleets import MCP_HEADERS, Http, call_body, fleet_command
from tests.support.wait import wait_until_sync

Json = dict[str, Any]
LOST = "step.lost"
"""Needs a worker that dies (tests/workers)."""
APPROVED: Json = {
    "initialState": "open",
    "states": {
        "open": {
            "transitions": {
                "ask": {"target": "asked", "executor": {"kind": "human", "queue": "leads"}},
                "fail": {"target": "asked", "executor": {"kind": "cli", "command": "false"}},
            }
        },
        "asked": {"transitions": {"approve": {"actor": "human", "target": "done"}}},
        "done": {"terminal": True},
    },
}
CONFIG: Json = {
    "gateway": {"version": "1.0.0", "workflows": {"approved": APPROVED}},
    "workflows": {"min_checkpoint_response_seconds": 0},
    "attempts": {"backoff_seconds": 0},
    "flows": {"demo_tools": True},
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    with GatewayFleet(tmp_path_factory.mktemp("provoked"), CONFIG) as gateway:
        yield gateway


class Feed:
    """Everything that is told, from now on, to whoever has this token (empty: to anybody)."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._kinds = ",".join(GROUPS) if not token else "gateway.*"
        self._cursor = ""
        self.events: list[Json] = []
        self.read()

    def read(self) -> None:
        after = f"&after={self._cursor}" if self._cursor else ""
        path = f"/feed/default?waitMs={200 if after else 0}&kinds={self._kinds}{after}"
        with Http(self._port) as client:
            client.connection.request("GET", path, headers=self._headers)
            answer = json.loads(client.connection.getresponse().read())
        self._cursor = answer["cursor"]
        self.events += answer["events"]

    def until(self, *names: str, of: str = "") -> list[Json]:
        """The data of the first event with each of these names, about one thing if it is given."""

        def told() -> list[Json]:
            self.read()
            found = {event["name"]: event["data"] for event in reversed(self.events) if of in ("", event["data"]["id"])}
            return [found[name] for name in names] if found.keys() >= set(names) else []

        return wait_until_sync(told, what=f"{names}, among {Counter(event['name'] for event in self.events)}")

    def has_all_of(self, *groups: str) -> bool:
        """Whether there was an event of each kind of these groups."""
        wanted = {name for name in NAMES if name.partition(".")[0] in groups} - {LOST}
        return wanted <= {event["name"] for event in self.events}


def call(gateway: GatewayFleet, toolset: str, tool: str, **arguments: Any) -> Any:
    with Http(gateway.fleet.port) as client:
        client.connection.request("POST", f"/mcp/{toolset}", call_body(tool, arguments), MCP_HEADERS)
        result = json.loads(client.connection.getresponse().read())["result"]
    assert not result.get("isError"), result
    return {**result.get("structuredContent", {}), **result.get("_meta", {})}


def act(gateway: GatewayFleet, tool: str, **arguments: Any) -> Any:
    return call(gateway, "items", tool, requestId=str(uuid4()), actor={"id": "bot", "kind": "subagent"}, **arguments)


def advance(gateway: GatewayFleet, item: str, trigger: str) -> None:
    actor = {"id": "bot", "kind": "subagent"}
    step = {"itemId": item, "trigger": trigger, "actor": actor}
    assert call(gateway, "items", "advance_item", transitions=[step])["results"][0]["applied"]


def new_item(gateway: GatewayFleet, **fields: Any) -> str:
    made = call(gateway, "items", "manage_items", operation="create", items=[{"title": "x", **fields}])
    return str(made["items"][0]["id"])


def test_items_and_agents(gateway: GatewayFleet) -> None:
    feed = Feed(gateway.fleet.port)
    item, other = new_item(gateway, maxAttempts=2, retryBackoffSeconds=0), new_item(gateway)
    act(gateway, "manage_items", operation="update", items=[{"id": other, "title": "y"}])
    act(gateway, "manage_notes", operation="upsert", notes=[{"itemId": other, "key": "k", "role": "work", "body": "b"}])
    act(gateway, "manage_notes", operation="delete", itemId=other, key="k")
    edge = {"fromItemId": item, "toItemId": other}
    act(gateway, "manage_dependencies", operation="create", dependencies=[edge])
    act(gateway, "manage_dependencies", operation="delete", **edge)
    feed.until("item.create", "item.update", "item.note", "item.unnote", of=other)
    feed.until("item.link", "item.unlink")
    for _ in range(2):
        act(gateway, "claim_item", claims=[{"itemId": item}])
        if _ == 0:
            advance(gateway, item, "start")
        act(gateway, "claim_item", releases=[{"itemId": item, "reason": "failed"}])
    attempt, quarantine, _, release = feed.until(
        "item.attempt", "item.quarantine", "item.claim", "item.release", of=item
    )
    assert (attempt["attempts"], attempt["ended"], attempt["reason"]) == (1, "released", "failed")
    assert (quarantine["attempts"], quarantine["max"]) == (2, 2)
    assert release["reason"] == "failed"
    moved = [event["data"]["trigger"] for event in feed.events if event["name"] == "item.transition"]
    assert moved == ["start", "quarantine"]
    act(gateway, "claim_item", claims=[{"itemId": other, "ttlSeconds": 1}])
    feed.until("item.expire", of=other)
    act(gateway, "manage_items", operation="delete", ids=[other])
    feed.until("item.delete", of=other)
    for words in (("drain", "bot"), ("undrain", "bot")):
        assert fleet_command("agents", *words, "--data-dir", str(gateway.fleet.data_dir)).returncode == 0
    feed.until("agent.drain", "agent.undrain", of="bot")
    spent = new_item(gateway, budget={"tokens": 10})
    note = {"itemId": spent, "key": "k", "role": "work", "body": "b", "usage": {"inputTokens": 10}}
    act(gateway, "manage_notes", operation="upsert", notes=[note])
    (budget,) = feed.until("item.budget", of=spent)
    assert budget["to"] == "spent"
    act(gateway, "manage_notes", operation="upsert", notes=[{**note, "tokensRefused": 7}])
    (refused,) = feed.until("item.usage_refused", of=spent)
    assert (refused["key"], refused["costMicroUsd"], refused["tokens"]) == ("k", 0, 7)
    assert feed.has_all_of("item", "agent")


async def change(gateway: GatewayFleet, flow: int) -> None:
    """What operators do."""
    url = known_url(gateway.fleet.data_dir)
    assert url is not None
    store = Store(url)
    await store.open()
    flows = FlowStore(store, Settings())
    await flows.pause("default", NO_KEY, flow, "operator")
    await flows.pause("default", NO_KEY, flow, "operator", resume=True)
    await store.close()


@pytest.mark.anyio
async def test_workflows_and_their_steps(gateway: GatewayFleet) -> None:
    feed = Feed(gateway.fleet.port)
    flow = {
        "start": {"name": "look", "tool": "knowledge_list", "args": {}, "next": "approve"},
        "approve": {"name": "approve", "tool": None, "next": "act"},
        "act": {
            "name": "act", "tool": "fail", "args": {}, "retry": {"max_attempts": 2, "delay_ms": 1}, "done": True,
        },
    }  # fmt: skip
    made = str(call(gateway, "flows", "workflow_create", name="f", flow=flow)["id"])
    waiting, *_ = feed.until("step.waiting", "flow.created", "step.started", "step.ended", of=made)
    assert waiting["step"] == "approve"
    await change(gateway, int(made))
    feed.until("flow.paused", "flow.resumed", of=made)
    call(gateway, "flows", "workflow_step_ready", step_id=int(waiting["stepId"]))
    *_, ended = feed.until("step.released", "step.retrying", "flow.ended", of=made)
    assert ended["to"] == "failed"
    told = [(event["name"], event["data"].get("step"), event["data"].get("to")) for event in feed.events]
    assert told.index(("step.ended", "start", "done")) < told.index(("step.waiting", "approve", None))
    assert told[-2:] == [("step.ended", "act", "failed"), ("flow.ended", None, "failed")]
    assert fleet_command("flows", "retry", made, "--data-dir", str(gateway.fleet.data_dir)).returncode == 0
    feed.until("flow.retried", of=made)
    assert feed.has_all_of("flow", "step")


def test_sessions_and_their_checkpoints(gateway: GatewayFleet) -> None:
    feed, item = Feed(gateway.fleet.port), new_item(gateway)
    act(gateway, "claim_item", claims=[{"itemId": item}])

    def session(tool: str, **arguments: Any) -> str:
        return str(call(gateway, "sessions", tool, **arguments)["session_token"])

    actor = {"id": "bot", "kind": "subagent"}
    token = session("start_session", workflow_id="change", item_id=item, actor=actor)
    session("start_session", session_token=token, agent_id="another")
    token = session("next_activity", session_token=token, activity_id="understand")
    yielded = call(gateway, "sessions", "yield_checkpoint", session_token=token, checkpoint_id="scope-agreed")
    handle = yielded["checkpoint_handle"]
    call(gateway, "sessions", "respond_checkpoint", checkpoint_handle=handle, option_id="small")
    token = session("resume_checkpoint", session_token=token)
    moved, waits, answered, *_ = feed.until(
        "session.move", "session.yield", "session.answer", "session.start", "session.bind", "session.join",
        "session.resume",
    )  # fmt: skip
    assert (moved["workflow"], moved["to"]) == ("change", "understand")
    assert (waits["checkpoint"], answered["checkpoint"]) == ("scope-agreed", "scope-agreed")
    assert waits["activity"] == "understand"
    act(gateway, "claim_item", releases=[{"itemId": item}])
    other = {"id": "other", "kind": "subagent"}
    call(gateway, "items", "claim_item", requestId=str(uuid4()), actor=other, claims=[{"itemId": item}])
    taken = session("start_session", item_id=item, actor=other, agent_id="other")
    feed.until("session.takeover")
    for activity in ("deliver", "__terminal__"):
        taken = session("next_activity", session_token=taken, activity_id=activity)
    feed.until("session.complete")
    assert feed.has_all_of("session")


def test_instances_of_the_gateway_and_their_approvals(gateway: GatewayFleet) -> None:
    feed, approver = Feed(gateway.fleet.port), Feed(gateway.fleet.port, gateway.human)
    agent, human = gateway.agent(), gateway.agent(gateway.human)
    at = agent.start("approved")
    for one in (feed, approver):
        one.until("gateway.started", of=at["workflowId"])
        assert [event["name"] for event in one.events if event["data"]["id"] == at["workflowId"]] == ["gateway.started"]
    agent.refused("workflow.submit", **link(at, "fail"))
    for one in (feed, approver):
        assert one.until("gateway.failed", of=at["workflowId"])[0]["state"] == "open"
    at = agent("workflow.submit", **link(at, "ask"))
    of = at["workflowId"]
    asked: Json = {}
    for one in (feed, approver):
        asked, started, moved = one.until("gateway.asked", "gateway.started", "gateway.moved", of=of)
        assert asked["queue"] == "leads"
        assert started["definition"] == "approved"
        assert (moved["to"], moved["version"]) == ("asked", 2)
    human("workflow.submit", **link(human.get(at), "approve"))
    for one in (feed, approver):
        answered, ended = one.until("gateway.answered", "gateway.ended", of=of)
        assert (answered["to"], answered["transition"]) == ("resolved", "approve")
        assert answered["approvalId"] == asked["approvalId"]
        assert ended["outcome"] == "success"
        assert one.has_all_of("gateway")
