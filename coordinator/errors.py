"""The catalogue of error codes, and the exception that carries one to a caller.

Every failure a tool reports has this shape, unless its toolset has a form of its own:
``{"error": {kind, code, message, retryAfterMs?, contendedItemId?}}``. A code has exactly
one kind, so a caller that knows the code knows whether to retry. Codes and their kinds are defined
only here. This module belongs to no subpackage, so that every layer may raise its exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, NamedTuple

Kind = Literal["transient", "permanent", "shedding"]


class ErrorCode(NamedTuple):
    """One row of the catalogue."""

    kind: Kind
    meaning: str
    advice: str


CATALOGUE: dict[str, ErrorCode] = {
    "VALIDATION_ERROR": ErrorCode(
        "permanent",
        "an argument is missing, of the wrong type or outside what is allowed",
        "correct the field that the message names",
    ),
    "RESOURCE_NOT_FOUND": ErrorCode(
        "permanent",
        "no such item, note or dependency in this project",
        "check the id and the project; the item may have been deleted",
    ),
    "rejected_by_policy": ErrorCode(
        "permanent",
        "the degraded-mode policy does not trust this actor",
        "present a proof that verifies",
    ),
    "actor_mismatch": ErrorCode(
        "permanent",
        "actor.id is not that of the caller whom the bearer token names",
        "leave actor.id out, append '/' and a suffix to your own id, or present a token of that actor",
    ),
    "permission_denied": ErrorCode(
        "permanent",
        "the caller's token does not permit this tool or project",
        "use another tool, or ask an operator for the permission that the message names",
    ),
    "unauthenticated": ErrorCode(
        "permanent",
        "the credential of this connection has expired or was revoked",
        "connect again with a valid one",
    ),
    "not_claim_holder": ErrorCode(
        "permanent",
        "the item is not the caller's: another agent holds a live claim on it, or the caller holds none",
        "take another item, or wait until the claim expires",
    ),
    "not_ready": ErrorCode(
        "permanent",
        "the item cannot go on yet: notes that it needs are missing, or it waits for something else",
        "do what the message says, then repeat the call",
    ),
    "stale_fence": ErrorCode(
        "permanent",
        "the fence token shown is not that of the item's present claim",
        "stop work on the item: your claim was lost",
    ),
    "request_id_reused": ErrorCode(
        "permanent",
        "the requestId was used before with other arguments",
        "generate a fresh requestId for each logical operation",
    ),
    "already_claimed": ErrorCode(
        "transient",
        "another agent holds a live claim on the item",
        "pick another item, or retry after retryAfterMs",
    ),
    "resource_busy": ErrorCode(
        "transient",
        "the claim on the item would have to hold resources that others hold",
        "retry later",
    ),
    "conflict": ErrorCode(
        "transient",
        "what the call had read was changed by another caller before it could write",
        "retry with backoff",
    ),
    "invalid_session_token": ErrorCode(
        "permanent",
        "the session token, checkpoint handle or state is not one that this fleet made, or its session is gone",
        "call start_session; with a damaged token give it as session_token to have its session recovered",
    ),
    "invalid_state": ErrorCode(
        "permanent",
        "the navigation state is not one that this fleet made for this project, or it was changed or damaged",
        "pass the state of the last answer exactly as it is; if it is lost, call nav_start",
    ),
    "checkpoint_active": ErrorCode(
        "permanent",
        "a checkpoint of the session is unanswered and blocks everything else",
        "have the orchestrator call respond_checkpoint with the checkpoint's handle",
    ),
    "checkpoint_closed": ErrorCode(
        "permanent",
        "the checkpoint that the call names is not the open one",
        "call get_workflow_status: it shows where the session stands and what was answered",
    ),
    "checkpoint_too_early": ErrorCode(
        "transient",
        "the minimum time between a checkpoint and its answer has not passed",
        "present the checkpoint, and answer after retryAfterMs",
    ),
    "session_superseded": ErrorCode(
        "permanent",
        "another agent has taken over the work item of the session, and the session with it",
        "stop work on the item; claim it again to continue",
    ),
    "store_unavailable": ErrorCode(
        "shedding",
        "the store does not answer, so the outcome is unknown",
        "retry with the same requestId after retryAfterMs",
    ),
    "store_changed": ErrorCode(
        "transient",
        "the store is not the one that the fleet had, so nothing is read from it or written to it",
        "retry with the same requestId; an operator has to bring the store back, or to accept this one",
    ),
    "project_away": ErrorCode(
        "transient",
        "the project is being copied to another store, or lives there now; nothing was read or written here",
        "retry with the same requestId after retryAfterMs; if the message says that it was moved, connect to its fleet",
    ),
    "layout_unknown": ErrorCode(
        "transient",
        "the store was brought to the layout of another release, and this process cannot read it",
        "retry with the same requestId: processes of that release answer; an operator has to stop this one",
    ),
    "store_full": ErrorCode(
        "shedding",
        "the store has reached its memory limit and takes no writes; reads and deletions still work",
        "retry after retryAfterMs; an operator has to add memory or delete data",
    ),
    "over_capacity": ErrorCode(
        "shedding",
        "this front-end has too much work in flight",
        "retry after retryAfterMs",
    ),
    "queue_timeout": ErrorCode(
        "shedding",
        "this front-end was busy with more urgent calls for as long as this one could wait",
        "retry after retryAfterMs",
    ),
    "actor_quota": ErrorCode(
        "shedding",
        "this agent or project has more calls in flight than its share while others wait",
        "make fewer concurrent calls; retry after retryAfterMs",
    ),
    "draining": ErrorCode(
        "shedding",
        "this front-end is shutting down or takes no new work",
        "retry: another process answers, or this one after the drain",
    ),
    "deadline_exceeded": ErrorCode(
        "transient",
        "the call took longer than the request deadline; it may or may not have taken effect",
        "retry with the same requestId",
    ),
    "INTERNAL_ERROR": ErrorCode(
        "permanent",
        "a defect of the coordinator; the log has the details under the request id",
        "report it with the request id",
    ),
}


_MOST_COMPARED = 2_000
_LONGEST_COMPARED = 200
"""Limits of the search for a similar name: known names compared, and characters of the unknown one."""
_MOST_LISTED = 20


class ToolFailure(Exception):
    """A failure reported to the caller.

    Args:
        code: a key of ``CATALOGUE``.
        message: a sentence for the caller, without secrets. If an argument is wrong, it names the
            field and what is allowed.
        retry_after_ms: when to retry, in milliseconds.
        contended_item_id: the item that caused the conflict, as a dashed UUID.
        data: further members of the error result, next to ``error``.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_ms: int | None = None,
        contended_item_id: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.kind: Kind = CATALOGUE[code].kind
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.contended_item_id = contended_item_id
        self.data = data

    def body(self) -> dict[str, Any]:
        """The structured content of the error result."""
        error: dict[str, Any] = {"kind": self.kind, "code": self.code, "message": self.message}
        if self.retry_after_ms is not None:
            error["retryAfterMs"] = self.retry_after_ms
        if self.contended_item_id is not None:
            error["contendedItemId"] = self.contended_item_id
        return {"error": error, **(self.data or {})}


def that_exist(name: str, known: Iterable[str]) -> str:
    """Suggests existing names for an unknown one, for the end of an error message.

    Args:
        known: what exists, as far as the caller may see it.

    Returns:
        ``; did you mean 'x'?``, or ``; there are: a, b`` if no name is similar.
    """
    names = list(islice(known, _MOST_COMPARED))
    close = get_close_matches(name[:_LONGEST_COMPARED], names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    listed = ", ".join(names[:_MOST_LISTED]) or "none"
    return f"; there are: {listed}{f' and {len(names) - _MOST_LISTED} more' if len(names) > _MOST_LISTED else ''}"


def invalid(field: str, problem: str) -> ToolFailure:
    """A VALIDATION_ERROR for one field: ``invalid("limit", "must be 1 to 20")``."""
    return ToolFailure("VALIDATION_ERROR", f"{field}: {problem}")
