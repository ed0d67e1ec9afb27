"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_FEATURE = "550e8400-e29b-41d4-a716-446655440000"
_TASK = "550e8400-e29b-41d4-a716-446655440001"
_NEXT = "550e8400-e29b-41d4-a716-446655440002"
_REQUEST = "7f2c1d9e-3b54-4a0e-9a71-5d1c0f6f2b11"
_WORKER = {"id": "worker-agent-7", "kind": "subagent", "parent": "orchestrator-1"}
_ORCHESTRATOR = {"id": "orchestrator-1", "kind": "orchestrator"}
_BY_ORCHESTRATOR = {"actor": _ORCHESTRATOR, "requestId": _REQUEST}
_BY_WORKER = {"actor": _WORKER, "requestId": _REQUEST}

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "manage_items": (
        {
            "operation": "create",
            "parentId": _FEATURE,
            "items": [
                {"title": "Design API schema", "priority": "high", "tags": "task-implementation"},
                {"title": "Write unit tests", "priority": "medium", "complexity": 3},
            ],
            **_BY_ORCHESTRATOR,
        },
        {"operation": "update", "items": [{"id": _TASK, "priority": "high", "complexity": 3}]},
        {"operation": "delete", "ids": [_FEATURE], "recursive": True},
    ),
    "query_items": (
        {"operation": "get", "id": _TASK, "includeAncestors": True},
        {"operation": "search", "role": "queue", "tags": "backend,api", "query": "login", "limit": 20},
        {"operation": "overview", "itemId": _FEATURE},
    ),
    "create_work_tree": (
        {
            "root": {"title": "Authentication Feature", "priority": "high", "tags": "feature"},
            "children": [
                {"ref": "t1", "title": "Design login flow", "priority": "high"},
                {"ref": "t2", "title": "Implement JWT handler", "priority": "high"},
            ],
            "deps": [{"from": "t1", "to": "t2", "type": "BLOCKS"}],
            "notes": [{"itemRef": "t1", "key": "task-scope", "role": "queue", "body": "Screens and error states."}],
            **_BY_ORCHESTRATOR,
        },
    ),
    "complete_tree": ({"rootId": _FEATURE, "trigger": "complete", **_BY_ORCHESTRATOR},),
    "manage_notes": (
        {
            "operation": "upsert",
            "notes": [
                {
                    "itemId": _TASK,
                    "key": "requirements",
                    "role": "queue",
                    "body": "The handler must validate JWT signatures and return 401 on failure.",
                    "actor": _WORKER,
                }
            ],
        },
        {"operation": "delete", "itemId": _TASK, "key": "requirements"},
    ),
    "query_notes": ({"operation": "list", "itemId": _TASK, "role": "queue", "includeBody": False},),
    "manage_dependencies": (
        {
            "operation": "create",
            "dependencies": [{"fromItemId": _TASK, "toItemId": _NEXT, "type": "BLOCKS", "unblockAt": "terminal"}],
        },
        {"operation": "create", "pattern": "linear", "itemIds": [_TASK, _NEXT]},
        {"operation": "delete", "fromItemId": _TASK, "toItemId": _NEXT},
    ),
    "query_dependencies": ({"itemId": _TASK, "direction": "incoming", "includeItemInfo": True},),
    "advance_item": (
        {
            "transitions": [{"itemId": _TASK, "trigger": "start", "actor": _WORKER, "fenceToken": 3}],
            "requestId": _REQUEST,
        },
        {
            "transitions": [
                {
                    "itemId": _TASK,
                    "trigger": "complete",
                    "actor": _WORKER,
                    "fenceToken": 3,
                    "result": {"branch": "jwt-handler", "tests": 14},
                }
            ],
            "requestId": _REQUEST,
        },
    ),
    "get_next_status": ({"itemId": _TASK},),
    "get_context": (
        {"itemId": _TASK},
        {"since": "2026-01-01T09:00:00Z", "includeAncestors": True},
        {"agents": True},
        {},
    ),
    "get_next_item": ({"parentId": _FEATURE, "limit": 3, "includeDetails": True},),
    "get_blocked_items": ({"parentId": _FEATURE, "includeItemDetails": True},),
    "claim_item": (
        {"claims": [{"itemId": _TASK, "ttlSeconds": 900}], **_BY_WORKER},
        {
            "claims": [{"selector": {"tags": "backend", "priority": "high"}}],
            "waitMs": 30000,
            "include": ["item", "notes", "results"],
            **_BY_WORKER,
        },
        {"releases": [{"itemId": _TASK}], **_BY_WORKER},
    ),
}
