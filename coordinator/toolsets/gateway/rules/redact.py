"""Keeps secrets out of the audit: values are left out by the names they have."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "***"
_SECRET = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|credential|authorization|api[-_]?key|private[-_]?key|access[-_]?key"
    r"|cookie|^auth$|bearer|^pin$|^otp$|signature",
    re.IGNORECASE,
)
_LONGEST = 2_000
_MOST = 200
_DEEPEST = 12


def redacted(value: Any, depth: int = 0) -> Any:
    """The value with what hides behind names like password, token or apiKey replaced, and long texts cut."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, dict):
        shown = list(value.items())[:_MOST]
        return {
            key: REDACTED if _SECRET.search(key) and entry is not None else redacted(entry, depth + 1)
            for key, entry in shown
        }
    if isinstance(value, list | tuple):
        return [redacted(entry, depth + 1) for entry in value[:_MOST]]
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[:_LONGEST] + "..."
    return value
