"""Outcomes of calls of tools: the value that a step has as its result, or the failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.client.retries import retryable
from coordinator.steps.model import Failure


def value_of(structured: Any, texts: Sequence[str]) -> Any:
    """The result of a tool as flows see it: the JSON value that is recorded, and that conditions use.

    This is the structured content if there is some; if ``result`` is its only key, the value of that. Otherwise it is
    the text if there is a single one, parsed if it is JSON. Otherwise it is the list of content blocks, or null.

    Args:
        structured: the structured content; None if there is none.
        texts: the text blocks, which are all.
    """
    if structured is not None:
        if isinstance(structured, dict) and len(structured) == 1:
            return structured.get("result", structured)
        return structured
    if len(texts) == 1:
        try:
            return msgspec.json.decode(texts[0])
        except (msgspec.DecodeError, RecursionError):
            return texts[0]
    return [{"type": "text", "text": text} for text in texts] or None


def failure_of(structured: Any, texts: Sequence[str]) -> Failure:
    """The failure that a result with ``isError`` describes.

    Our own tools, and servers like ours, state a code and a kind, too.
    """
    error = structured.get("error") if isinstance(structured, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), str) and isinstance(error.get("message"), str):
        retry = retryable(structured)
        return Failure(
            error["message"],
            error["code"],
            error.get("kind") != "permanent",
            round(retry.after * 1000) if retry is not None else 0,
        )
    message = "\n".join(texts) or (msgspec.json.encode(structured).decode() if structured else "the tool failed")
    return Failure(message, "tool_error")
