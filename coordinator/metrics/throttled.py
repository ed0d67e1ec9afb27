"""Throttled warnings, for what may happen on every call: at most a few log lines."""

from __future__ import annotations

import time

import structlog

_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class ThrottledWarnings:
    """Logs a warning of each kind at most once in ten seconds, with the number of warnings left out in between."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def __call__(self, kind: str, event: str, **more: object) -> None:
        """Logs a warning, or counts it as left out.

        Args:
            kind: one of a few words, by which warnings are throttled. Each is remembered.
        """
        now = time.monotonic()
        if now < self._next.get(kind, 0.0):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next[kind] = now + _SECONDS
        _log.warning(event, **more, more_of_it=self._left_out.pop(kind, 0))
