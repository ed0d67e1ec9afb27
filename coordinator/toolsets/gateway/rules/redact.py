"""Redacts secrets in the audit: a value is hidden if its name suggests a secret."""

from __future__ import annotations

import re
from typing import Any

import msgspec

REDACTED = "***"
_SECRET = re.compile(
    r"pass$|passw|passphrase|passcode|pwd|secret|token|credential|authorization|api[-_]?key|private[-_]?key"
    r"|access[-_]?key|cookie|^auth$|bearer|jwt|^pin$|^otp$|signature",
    re.IGNORECASE,
)
_OPENING = ("{", "[")
"""The first characters of JSON texts that may contain secrets."""
_decode, _encode = msgspec.json.decode, msgspec.json.Encoder().encode
_MAX_TEXT = 2_000
"""The most characters shown of a text."""
_MAX_ENTRIES = 200
_MAX_DEPTH = 12


def redacted(value: Any, depth: int = 0) -> Any:
    """Replaces values with names like password, token or apiKey, and shortens long texts.

    Texts that are JSON are searched as well: requests to other systems often contain JSON.
    """
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        kept = list(value.items())[:_MAX_ENTRIES]
        copy = {
            key: REDACTED if _SECRET.search(key) and entry is not None else redacted(entry, depth + 1)
            for key, entry in kept
        }
        return {**copy, "...": f"{len(value) - len(kept)} more"} if len(kept) < len(value) else copy
    if isinstance(value, list | tuple):
        entries = [redacted(entry, depth + 1) for entry in value[:_MAX_ENTRIES]]
        return [*entries, f"... {len(value) - len(entries)} more"] if len(entries) < len(value) else entries
    if isinstance(value, str):
        text = _inner(value, depth)
        return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."
    return value


def _inner(text: str, depth: int) -> str:
    """Hides the secrets in a text that is JSON. Other texts are returned unchanged."""
    if text.lstrip()[:1] not in _OPENING:
        return text
    try:
        decoded = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    copy = redacted(decoded, depth + 1)
    return text if copy == decoded else _encode(copy).decode()
