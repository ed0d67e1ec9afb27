"""Masks what must not be shown in the text of a setting."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"(://[^:@/\s]*):\S*@")
_QUERY = re.compile(r"([?&](?:password|token|secret)=)[^&\s]*", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with passwords in URLs replaced: ``redis://user:***@host``."""
    return _QUERY.sub(r"\1***", _USER_INFO.sub(r"\1:***@", text))
