"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_REQUEST = "7f2c1d9e-3b54-4a0e-9a71-5d1c0f6f2b11"
_ORCHESTRATOR = {"actor": {"id": "orchestrator-1", "kind": "orchestrator"}, "requestId": _REQUEST}
_WORKFLOW = 1773850841512
_STEP = 1773850841600

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "workflow_create": (
        {
            "name": "next-piece-of-work",
            "flow": {
                "start": {
                    "name": "look",
                    "tool": "get_next_item",
                    "args": {"tags": "{{input.tags}}"},
                    "next": "report",
                },
                "report": {
                    "name": "report",
                    "tool": "query_items",
                    "args": {"operation": "overview"},
                    "done": True,
                },
            },
            "input": {"tags": "backend"},
            **_ORCHESTRATOR,
        },
        {
            "name": "approved-item",
            "flow": {
                "start": {"name": "await_approval", "tool": None, "next": "write"},
                "write": {
                    "name": "write",
                    "tool": "manage_items",
                    "args": {"operation": "create", "items": [{"title": "{{input.title}}"}]},
                    "retry": {"max_attempts": 3},
                    "done": True,
                },
            },
            "input": {"title": "Deployment Runbook"},
        },
    ),
    "workflow_list": ({"limit": 20}, {"status": "failed", "name": "approved"}),
    "workflow_get": ({"id": _WORKFLOW},),
    "workflow_cancel": ({"id": _WORKFLOW, **_ORCHESTRATOR},),
    "workflow_step_ready": ({"step_id": _STEP, "actor": {"id": "ana", "kind": "user"}, "requestId": _REQUEST},),
}
