"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SEALED = "eyJ3ZiI6Indvcmst...iOiJvcmNoZXN0cmF0b3IifQ.4e94c2e060c05cd1...7dc769159c5613"
_SESSION = {"session_token": _SEALED}

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "discover": ({},),
    "list_workflows": ({},),
    "health_check": ({},),
    "start_session": (
        {"agent_id": "orchestrator"},
        {"agent_id": "orchestrator", "workflow_id": "work-package", "parent_session_token": _SEALED},
        {"agent_id": "worker-1", "session_token": _SEALED},
        {
            "agent_id": "worker-agent-7",
            "workflow_id": "work-package",
            "item_id": "550e8400-e29b-41d4-a716-446655440001",
            "actor": {"id": "worker-agent-7", "kind": "subagent"},
            "fence_token": 3,
        },
    ),
    "get_workflow_status": (_SESSION, {"session_token": _SEALED, "answered_checkpoints": True}),
    "get_workflow": ({"session_token": _SEALED, "summary": True},),
    "next_activity": (
        {"session_token": _SEALED, "activity_id": "start-work-package"},
        {
            "session_token": _SEALED,
            "activity_id": "plan-prepare",
            "transition_condition": "skip_optional_activities == true",
            "step_manifest": [
                {"step_id": "resolve-target", "output": "Target verified at /path"},
                {"step_id": "initialize-target", "output": "Checked out main, pulled latest"},
            ],
            "activity_manifest": [
                {
                    "activity_id": "start-work-package",
                    "outcome": "completed",
                    "transition_condition": "default",
                },
                {
                    "activity_id": "design-philosophy",
                    "outcome": "completed",
                    "transition_condition": "skip_optional_activities == true",
                },
            ],
        },
        {"session_token": _SEALED, "activity_id": "__terminal__", "step_manifest": []},
    ),
    "get_activity": (_SESSION,),
    "yield_checkpoint": ({"session_token": _SEALED, "checkpoint_id": "branch-check"},),
    "resume_checkpoint": (_SESSION,),
    "present_checkpoint": ({"checkpoint_handle": _SEALED}, _SESSION),
    "respond_checkpoint": (
        {"checkpoint_handle": _SEALED, "option_id": "proceed"},
        {"checkpoint_handle": _SEALED, "auto_advance": True},
        {"checkpoint_handle": _SEALED, "condition_not_met": True},
    ),
    "get_skills": (_SESSION,),
    "get_skill": (_SESSION, {"session_token": _SEALED, "step_id": "check-branch"}),
    "get_resource": (
        {"session_token": _SEALED, "resource_id": "03"},
        {"session_token": _SEALED, "resource_id": "meta/01"},
    ),
    "get_trace": (_SESSION, {"session_token": _SEALED, "trace_tokens": [_SEALED]}),
}
