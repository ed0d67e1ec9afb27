"""Workflows as documents, which clients read by their URIs."""

from __future__ import annotations

import re

from coordinator.toolsets.flows.contract.base import MAX_ID
from coordinator.toolsets.flows.contract.reads import WorkflowGet, WorkflowList
from coordinator.toolsets.tool import Document, Tool

_NUMBER = re.compile(r"[1-9][0-9]{0,18}")


def documents(workflow_list: Tool, workflow_get: Tool) -> tuple[Document, ...]:
    return (
        Document(
            "flows",
            "flows",
            "Workflows",
            "The newest workflows: workflow_list.",
            workflow_list,
            lambda _: WorkflowList(),
            follows="all",
        ),
        Document(
            "flows/{id}",
            "flow",
            "Workflow",
            "A workflow with its steps so far: workflow_get.",
            workflow_get,
            lambda flow: WorkflowGet(id=int(flow)),
            _flow,
        ),
    )


def _flow(text: str) -> str | None:
    return text if _NUMBER.fullmatch(text) and int(text) <= MAX_ID else None
