"""What asks people in a project: an approval of the gateway, a gate, a checkpoint, and a question about an item."""

from __future__ import annotations

import base64
import json
from typing import Any

from playwright.sync_api import Page, expect

from coordinator.client import SyncFleet

Json = dict[str, Any]

RELEASE = {
    "title": "Release",
    "initialState": "testing",
    "initialContext": {"coverage": 84},
    "inputSchema": {"type": "object", "properties": {"version": {"type": "string"}}},
    "states": {
        "testing": {
            "goal": "See the tests pass",
            "transitions": {"pass": {"title": "The tests pass", "target": "reviewing", "evidence": ["tests"]}},
        },
        "reviewing": {
            "goal": "A person decides",
            "guidance": "Look at the coverage.",
            "onEnter": {"executor": {"kind": "human", "queue": "ops", "distinctFrom": "requester"}},
            "transitions": {
                "approve": {"title": "Approve", "actor": "human", "target": "deployed", "evidence": ["approval"]},
                "drop": {"title": "Drop it", "actor": "human", "target": "abandoned"},
                "reject": {
                    "title": "Reject",
                    "description": "Nothing is deployed.",
                    "actor": "human",
                    "target": "abandoned",
                    "inputSchema": {
                        "type": "object",
                        "required": ["reason"],
                        "properties": {
                            "reason": {"type": "string", "minLength": 1, "description": "For those who asked."},
                            "severity": {"enum": ["low", "high"]},
                            "days": {"type": "integer", "minimum": 1},
                        },
                    },
                    "output": {"reason": "$.arguments.reason", "days": "$.arguments.days"},
                },
            },
        },
        "deployed": {"description": "It is in production.", "terminal": True, "outcome": "success"},
        "abandoned": {"terminal": True, "outcome": "failure"},
    },
}
"""A workflow whose approval by one who has not asked for it ends it."""
CONFIG: Json = {
    "flows": {"demo_tools": True},
    "gateway": {"version": "1.0.0", "workflows": {"release": RELEASE}},
    "overload": {"least_limit": 64},
    "resources": {"lab/gpu": 2},
    "budgets": {
        "agents": {"capped*": {"day": {"costMicroUsd": 2_000_000}}},
        "projects": {"console-capped": {"total": {"tokens": 1_000}}},
    },
    "workflows": {"min_checkpoint_response_seconds": 0},
    "work_item_schemas": {
        "gated": {
            "notes": [
                {"key": "scope", "role": "queue", "required": True, "description": "What is to be <b>done</b>"},
                {"key": "tests", "role": "work", "required": True, "description": "How it was tested"},
                {"key": "ideas", "role": "work"},
            ]
        }
    },
}
"""Of the fleet that serves the console in tests; no page of it is shed for a slow machine."""


def agree(page: Page) -> None:
    """Says yes to what a page asks before it does something."""
    page.get_by_role("dialog").locator("[type=submit]").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def ask_approval(fleet: SyncFleet, version: str = "1.2.0") -> Json:
    """Starts a release as the client's agent, and takes it to its approval; returns the instance."""
    given = {"definitionId": "release", "input": {"version": version}}
    started = fleet.call("workflow.start", given, toolset="gateway")
    move = {"workflowId": started["workflowId"], "expectedVersion": started["version"], "transition": "pass"}
    return fleet.call("workflow.submit", {**move, "arguments": {}}, toolset="gateway")


def ask_gate(fleet: SyncFleet, name: str = "Deployment", **more: Any) -> int:
    """Creates a flow with a gate that waits; returns the flow's id."""
    flow = {"start": {"name": "Go live", "tool": None, "done": True, **more}}
    return int(fleet.call("workflow_create", {"name": name, "flow": flow}, toolset="flows")["id"])


def ask_checkpoint(fleet: SyncFleet) -> str:
    """Takes a session to a checkpoint that waits; returns the token of its worker."""
    given = {"workflow_id": "hotfix", "agent_id": "ag-7"}
    token = fleet.call("start_session", given, toolset="sessions")["session_token"]
    moved = {"session_token": token, "activity_id": "triage", "transition_condition": "default"}
    token = fleet.call("next_activity", moved, toolset="sessions")["session_token"]
    yielded = {"session_token": token, "checkpoint_id": "go-ahead"}
    return str(fleet.call("yield_checkpoint", yielded, toolset="sessions")["checkpoint_handle"])


def session_of(token: str) -> str:
    """The id of the session of a token."""
    payload = token.partition(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sid"])


def ask_question(fleet: SyncFleet, title: str = "Choose a colour", text: str = "Blue or green?") -> str:
    """Has an agent ask about an item; returns the item's id."""
    made = fleet.call("manage_items", {"operation": "create", "items": [{"title": title, "tags": "asks"}]})
    for job in fleet.jobs(tags="asks", wait=False):
        with job:
            job.ask(text)
    return str(made["items"][0]["id"])
