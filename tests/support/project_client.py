"""A client of one project of a fleet, over HTTP: items and flows from their beginning to their end."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from tests.support.fleets import MCP_HEADERS, Http, call_body
from tests.support.wait import wait_until_sync

FLOW = {"start": {"name": "first", "tool": "get_next_item", "args": {}, "next": "last"},
        "last": {"name": "last", "tool": "get_next_item", "args": {}, "done": True}}  # fmt: skip
ACTOR = {"id": "agent-1", "kind": "subagent"}


class InProject(Http):
    """Calls tools in one project."""

    def __init__(self, port: int, project: str) -> None:
        super().__init__(port)
        self.project = project

    def call(self, tool: str, **arguments: Any) -> Any:
        self.connection.request("POST", f"/p/{self.project}/mcp", call_body(tool, arguments), MCP_HEADERS)
        return msgspec.json.decode(self.connection.getresponse().read())["result"]["structuredContent"]

    def work(self) -> str:
        """Creates, claims and completes an item; the code of the first refusal, or its role at the end."""
        created = self.call("manage_items", operation="create", items=[{"title": "work"}])
        if "error" in created:
            return str(created["error"]["code"])
        item = created["items"][0]["id"]
        claims = {"actor": ACTOR, "requestId": str(uuid.uuid4()), "claims": [{"itemId": item}]}
        assert self.call("claim_item", **claims)["claimResults"][0]["outcome"] == "success"
        transition = {"itemId": item, "trigger": "complete", "actor": ACTOR}
        done = self.call("advance_item", transitions=[transition], requestId=str(uuid.uuid4()))
        return str(done["results"][0]["newRole"])

    def flow_done(self) -> bool:
        """Runs a flow to its end."""
        flow = self.call("workflow_create", name="flow", flow=FLOW)["id"]
        return bool(wait_until_sync(lambda: self.call("workflow_get", id=flow)["status"] == "completed", what="a flow"))
