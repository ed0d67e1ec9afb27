"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WORKFLOW = "wf_a1b2c3d4e5f6"
_DEPLOY: Mapping[str, Any] = {
    "definitionId": "deploy_pipeline",
    "input": {"service": "payments", "environment": "staging"},
}

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "gateway.home": ({},),
    "gateway.search": ({"query": "deploy"}, {"query": "issues", "kind": "capability", "limit": 5}),
    "gateway.describe": ({"id": "github.list_issues"},),
    "workflow.start": (
        _DEPLOY,
        {
            "definitionId": "proxy_default",
            "input": {"capability": "github.list_issues", "repo": "fleet"},
            "requestId": "7f2c1d9e-3b54-4a0e-9a71-5d1c0f6f2b11",
        },
    ),
    "workflow.get": ({"workflowId": _WORKFLOW}, {"workflowId": _WORKFLOW, "result": "lastResult"}),
    "workflow.submit": (
        {"workflowId": _WORKFLOW, "expectedVersion": 4, "transition": "deploy", "arguments": {"confirm": True}},
    ),
    "workflow.explain": (
        {"definitionId": "deploy_pipeline"},
        {"definitionId": "deploy_pipeline", "transition": "deploy"},
    ),
}
