"""Decodes, forges and damages tokens."""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from coordinator.toolsets.sessions.rules import trace

Json = dict[str, Any]


def payload(token: str) -> Json:
    """The payload of a token."""
    part = token.split(".")[0]
    found: Json = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def segment(trace_token: str) -> Json:
    """The content of a trace token: target activity, events, and the indexes of the first and past the last."""
    part = trace_token.split(".")[0]
    raw = zlib.decompress(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    found = msgspec.json.decode(raw, type=trace.Segment)
    events = msgspec.to_builtins(found.events())
    return {"act": found.act, "from": found.first, "to": found.first + len(events), "n": len(events), "events": events}


def forged(token: str, **changes: Any) -> str:
    """The token with another payload under its signature."""
    part = urlsafe_b64encode(json.dumps(payload(token) | changes).encode()).rstrip(b"=").decode()
    return f"{part}.{token.split('.')[1]}"


def unsigned(token: str) -> str:
    """The token as signed by a removed key."""
    return f"{token.split('.')[0]}.{'0' * 64}"
