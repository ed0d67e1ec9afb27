"""Times as callers and operators read them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache

_ENDS = tuple(f".{ms:03d}Z" for ms in range(1000))


def iso(ms: int) -> str:
    """Milliseconds since 1970 as ``2026-01-01T12:00:00.250Z``."""
    seconds, rest = divmod(ms, 1000)
    return _second(seconds) + _ENDS[rest]


def now() -> str:
    """The time of this machine's clock, in the same form."""
    return iso(time.time_ns() // 1_000_000)


@lru_cache(maxsize=512)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
