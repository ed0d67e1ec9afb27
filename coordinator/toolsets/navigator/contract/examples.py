"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_STATE = "v1.gzB64.H4sIAAAAAAAC/..."

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "nav_start": (
        {"workflow_id": "change"},
        {"workflow_id": "change", "initial_variables": {"needs_design": True}},
        {"workflow_id": "change", "state": _STATE},
    ),
    "nav_situation": ({"state": _STATE},),
    "nav_action": (
        {"state": _STATE, "action": "complete_step", "step_id": "read-request"},
        {
            "state": _STATE,
            "action": "respond_to_checkpoint",
            "checkpoint_id": "scope-agreed",
            "option_id": "design-first",
        },
        {"state": _STATE, "action": "advance_loop", "loop_id": "tasks", "loop_items": ["parser", "printer"]},
        {
            "state": _STATE,
            "action": "transition",
            "activity_id": "review",
            "variables": {"checks_passed": True},
        },
        {"state": _STATE, "action": "report", "variables": {"checks_passed": False}},
    ),
    "nav_checkpoint": ({"state": _STATE},),
    "list_workflows": ({},),
    "get_workflow": ({"workflow_id": "change"},),
    "get_workflow_activity": ({"workflow_id": "change", "activity_id": "understand"},),
    "get_checkpoint": ({"workflow_id": "change", "activity_id": "understand", "checkpoint_id": "scope-agreed"},),
    "validate_transition": ({"workflow_id": "change", "from_activity": "understand", "to_activity": "build"},),
    "health_check": ({},),
    "get_activities": ({},),
    "get_activity": ({"activity_id": "start-workflow"},),
    "get_skills": ({},),
    "list_skills": ({}, {"workflow_id": "change"}),
    "get_skill": ({"skill_id": "workflow-execution"}, {"skill_id": "analysis", "workflow_id": "change"}),
    "list_workflow_resources": ({"workflow_id": "change"},),
    "get_resource": ({"workflow_id": "change", "index": "01"},),
    "list_templates": ({"workflow_id": "change"},),
    "get_template": ({"workflow_id": "change", "index": "1"},),
    "discover_resources": ({},),
}
