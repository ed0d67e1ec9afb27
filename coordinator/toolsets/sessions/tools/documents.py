"""Sessions as documents, which clients read by their URIs."""

from __future__ import annotations

from coordinator.toolsets.sessions.contract.arguments import BySession
from coordinator.toolsets.sessions.rules.tokens import SID
from coordinator.toolsets.sessions.tools.backend import Backend
from coordinator.toolsets.sessions.tools.moves import Moves
from coordinator.toolsets.tool import Document, Tool


def documents(backend: Backend) -> tuple[Document, ...]:
    tool = Tool("get_workflow_status", "", BySession, (), Moves(backend).session, read_only=True)
    return (
        Document(
            "sessions/{id}",
            "session",
            "Workflow session",
            "Where a session stands and which checkpoint waits: get_workflow_status, without the session's token.",
            tool,
            lambda session: BySession(session_id=session),
            _session,
        ),
    )


def _session(text: str) -> str | None:
    return text.lower() if SID.fullmatch(text.lower()) else None
