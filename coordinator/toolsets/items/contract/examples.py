"""One call of each tool, as an agent makes it: its arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FEATURE = "550e8400-e29b-41d4-a716-446655440000"
_TASK = "550e8400-e29b-41d4-a716-446655440001"
_NEXT = "550e8400-e29b-41d4-a716-446655440002"
_REQUEST = "7f2c1d9e-3b54-4a0e-9a71-5d1c0f6f2b11"
_WORKER = {"id": "worker-agent-7", "kind": "subagent", "parent": "orchestrator-1"}
_ORCHESTRATOR = {"id": "orchestrator-1", "kind": "orchestrator"}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "manage_items": {
        "operation": "create",
        "parentId": _FEATURE,
        "items": [
            {"title": "Design API schema", "priority": "high", "tags": "task-implementation"},
            {"title": "Write unit tests", "priority": "medium", "complexity": 3},
        ],
        "actor": _ORCHESTRATOR,
        "requestId": _REQUEST,
    },
    "query_items": {"operation": "search", "role": "queue", "tags": "backend,api", "query": "login", "limit": 20},
    "create_work_tree": {
        "root": {"title": "Authentication Feature", "priority": "high", "tags": "feature"},
        "children": [
            {"ref": "t1", "title": "Design login flow", "priority": "high"},
            {"ref": "t2", "title": "Implement JWT handler", "priority": "high"},
        ],
        "deps": [{"from": "t1", "to": "t2", "type": "BLOCKS"}],
        "notes": [{"itemRef": "t1", "key": "task-scope", "role": "queue", "body": "Screens and error states."}],
        "actor": _ORCHESTRATOR,
        "requestId": _REQUEST,
    },
    "complete_tree": {"rootId": _FEATURE, "trigger": "complete", "actor": _ORCHESTRATOR, "requestId": _REQUEST},
    "manage_notes": {
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
    "query_notes": {"operation": "list", "itemId": _TASK, "role": "queue", "includeBody": False},
    "manage_dependencies": {
        "operation": "create",
        "dependencies": [{"fromItemId": _TASK, "toItemId": _NEXT, "type": "BLOCKS", "unblockAt": "terminal"}],
    },
    "query_dependencies": {"itemId": _TASK, "direction": "incoming", "includeItemInfo": True},
    "advance_item": {
        "transitions": [{"itemId": _TASK, "trigger": "start", "actor": _WORKER, "fenceToken": 3}],
        "requestId": _REQUEST,
    },
    "get_next_status": {"itemId": _TASK},
    "get_context": {"itemId": _TASK},
    "get_next_item": {"parentId": _FEATURE, "limit": 3, "includeDetails": True},
    "get_blocked_items": {"parentId": _FEATURE, "includeItemDetails": True},
    "claim_item": {
        "claims": [{"itemId": _TASK, "ttlSeconds": 900}],
        "actor": _WORKER,
        "requestId": _REQUEST,
    },
}
