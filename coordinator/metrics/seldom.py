"""Log lines about what may happen at every call, at a rate that people can read."""

from __future__ import annotations

import time

import structlog

_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class Seldom:
    """Warns at most every ten seconds of one kind of thing, and says how often it happened since."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def __call__(self, kind: str, event: str, **more: object) -> None:
        """Warns, or counts.

        Args:
            kind: one of a few words.
        """
        now = time.monotonic()
        if now < self._next.get(kind, 0.0):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._next[kind] = now + _SECONDS
        _log.warning(event, **more, more_of_it=self._unsaid.pop(kind, 0))
