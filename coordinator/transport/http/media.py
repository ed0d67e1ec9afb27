"""Media types of a request: ``Content-Type`` and ``Accept`` (RFC 9110, 8.3 and 12.5.1)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

JSON = b"application/json"
STREAM = b"text/event-stream"
HTML = b"text/html"
TEXT = b"text/plain"

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETERS = rb"(?:[ \t]*;[ \t]*(?:" + _TOKEN + rb'=(?:[^;"\\]*|"(?:[^"\\]|\\.)*"))?)*[ \t]*'
_IS_JSON = re.compile(re.escape(JSON) + _PARAMETERS, re.IGNORECASE)
_QUALITY = re.compile(rb"[01](?:\.\d*)?")
_LEAST = 0.001
"""The least ``q`` that allows something."""
_REMEMBERED = 256


class Accepted(NamedTuple):
    """Which media types a client accepts, and how gladly (``q``, 0 to 1)."""

    json: float
    stream: float
    """An event stream (SSE)."""
    html: bool
    """Named explicitly, as browsers do, and liked as well as plain text; ``*/*`` is not enough."""


@lru_cache(maxsize=_REMEMBERED)
def is_json(content_type: bytes | None) -> bool:
    """Whether a ``Content-Type`` is JSON; parameters are ignored."""
    return content_type is not None and _IS_JSON.fullmatch(content_type) is not None


@lru_cache(maxsize=_REMEMBERED)
def accepted(accept: bytes | None) -> Accepted:
    """What an ``Accept`` header allows; without one, or with an empty one, everything.

    The most specific range decides. Parameters other than ``q`` are ignored.
    """
    if accept is None or not accept.strip():
        return Accepted(1.0, 1.0, False)
    ranges: dict[bytes, float] = {}
    for entry in accept.lower().split(b","):
        kind, *parameters = (part.strip() for part in entry.split(b";"))
        ranges[kind] = max(ranges.get(kind, 0.0), _quality(parameters))

    def takes(kind: bytes) -> float:
        wider = (kind, kind.partition(b"/")[0] + b"/*", b"*/*")
        return next((ranges[kind] for kind in wider if kind in ranges), 0.0)

    return Accepted(takes(JSON), takes(STREAM), HTML in ranges and takes(HTML) >= (takes(TEXT) or _LEAST))


def _quality(parameters: list[bytes]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.rstrip() == b"q" and _QUALITY.fullmatch(value.strip()):
            return float(value)
    return 1.0
