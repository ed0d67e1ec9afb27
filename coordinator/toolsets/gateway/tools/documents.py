"""The catalogue and the instances as documents, which clients read by their URIs."""

from __future__ import annotations

from coordinator.toolsets.gateway.contract.discovery import Home
from coordinator.toolsets.gateway.contract.workflow import Get
from coordinator.toolsets.gateway.operations import WORKFLOW
from coordinator.toolsets.tool import Document, Tool


def documents(home: Tool, get: Tool) -> tuple[Document, ...]:
    return (
        Document(
            "gateway",
            "gateway",
            "Gateway",
            "The workflows and capabilities of the gateway: gateway.home.",
            home,
            lambda _: Home(),
            follows="offer",
        ),
        Document(
            "operations/{id}",
            "operation",
            "Gateway workflow",
            "The state of a workflow or session of the gateway, with its next moves: workflow.get.",
            get,
            lambda instance: Get(workflow_id=instance),
            lambda text: text if WORKFLOW.fullmatch(text) else None,
        ),
    )
