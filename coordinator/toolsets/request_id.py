"""Request ids of toolsets whose contracts do not specify their form: any text, not only a UUID."""

from __future__ import annotations

from typing import Annotated, Any

from coordinator.errors import invalid
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, idempotency_key
from coordinator.toolsets.canonical import NOT_COMPARED
from coordinator.toolsets.doc import doc

MAX_REQUEST_ID = 200

RequestId = Annotated[
    str | None,
    doc(
        "A new id for each operation, best a UUID; a repeated call gets the first answer again.",
        published={"minLength": 1, "maxLength": MAX_REQUEST_ID},
        extra=NOT_COMPARED,
    ),
]


def keyed(actor: str, request_id: str | None, tool: str, *arguments: Any) -> IdempotencyKey:
    """The idempotency key of a call; ``NO_KEY`` without a request id.

    Args:
        actor: the trusted id of who calls.

    Raises:
        ToolFailure: VALIDATION_ERROR for an empty or too long one.
    """
    if request_id is None:
        return NO_KEY
    if not request_id.strip() or len(request_id) > MAX_REQUEST_ID:
        raise invalid("requestId", f"must be 1 to {MAX_REQUEST_ID} characters, not blank")
    return idempotency_key(actor, request_id, tool, *arguments)
