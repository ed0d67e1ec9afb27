"""A fleet behind Sentinels whose primary dies."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec

from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, call_body, once
from tests.support.sentinels import Watched
from tests.support.wait import wait_until_sync

ACTOR = {"id": "agent-1", "kind": "subagent"}
FLOW = {
    "start": {"name": "first", "tool": "get_next_item", "args": {}, "next": "gate"},
    "gate": {"name": "gate", "tool": None, "next": "last"},
    "last": {"name": "last", "tool": "get_next_item", "args": {}, "done": True},
}


class Client(Http):
    """Calls tools of items and flows."""

    def call(self, tool: str, **arguments: Any) -> Any:
        self.connection.request("POST", "/mcp", call_body(tool, arguments), MCP_HEADERS)
        answer = msgspec.json.decode(self.connection.getresponse().read())
        return answer["result"]["structuredContent"]


def test_work_continues_on_the_new_primary(watched_servers: Watched, tmp_path: Path) -> None:
    env = {
        "FLEET_REDIS_URL": watched_servers.url,
        "FLEET_DATA_DIR": str(tmp_path / "data"),
        "FLEET_REDIS_TIMEOUT_MS": "2000",
    }
    with (
        RunningCommand(tmp_path / "serve", "serve", "--port", "0", "--frontends", "2", **env) as serve,
        RunningCommand(tmp_path / "worker", "worker", **env) as worker,
    ):
        worker.wait_ready()
        port = int(serve.wait_ready().split("ready at ")[1].split()[0].rsplit(":", 1)[1])
        with Client(port) as client:
            item = client.call("manage_items", operation="create", items=[{"title": "work"}])["items"][0]["id"]
            request = str(uuid.uuid4())
            claim = {"actor": ACTOR, "requestId": request, "claims": [{"itemId": item}]}
            claimed = client.call("claim_item", **claim)
            flow = client.call("workflow_create", name="flow", flow=FLOW)["id"]
            gate = wait_until_sync(lambda: step_in(client, flow, "gate", "running"), what="the gate")
            wait_until_sync(watched_servers.replicated, what="the replica")
            watched_servers.kill(watched_servers.primary())
            wait_until_sync(lambda: once(port, "/readyz")[0] == 503, what="the fleet to notice")
            wait_until_sync(lambda: once(port, "/readyz")[0] == 200, what="the new primary")
            repeated = wait_until_sync(lambda: served(client.call("claim_item", **claim)), what="an answer")
            assert repeated == claimed, "the record of the request came along"
            transition = {"itemId": item, "trigger": "complete", "actor": ACTOR}
            done = client.call("advance_item", transitions=[transition], requestId=str(uuid.uuid4()))
            assert done["results"][0]["newRole"] == "terminal"
            client.call("workflow_step_ready", step_id=gate)
            wait_until_sync(lambda: step_in(client, flow, "last", "done"), what="the last step")
        assert worker.end() == 0
        assert serve.end() == 0


def served(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The answer, unless the store was unavailable."""
    return None if answer.get("error", {}).get("code") == "store_unavailable" else answer


def step_in(client: Client, workflow: int, name: str, status: str) -> int:
    """The id of the step of that name, once it has that status; 0 before."""
    steps = client.call("workflow_get", id=workflow)["steps"]
    return next((step["id"] for step in steps if (step["name"], step["status"]) == (name, status)), 0)
