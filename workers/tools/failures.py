"""Turns results with ``isError`` into failures of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.overload.retries import retryable
from coordinator.steps.model import Failure


def failure_of(structured: Any, texts: Sequence[str]) -> Failure:
    """The failure that a result describes. Our own tools, and servers like ours, state a code and a kind, too."""
    error = structured.get("error") if isinstance(structured, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), str) and isinstance(error.get("message"), str):
        asked = retryable(structured)
        return Failure(
            error["message"],
            error["code"],
            error.get("kind") != "permanent",
            round(asked.after * 1000) if asked is not None else 0,
        )
    message = "\n".join(texts) or (msgspec.json.encode(structured).decode() if structured else "the tool failed")
    return Failure(message, "tool_error")
