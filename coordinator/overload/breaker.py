"""Pauses calls to a store that does not answer, and probes it until it answers again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from coordinator.backoff import Backoff

State = Literal["closed", "open", "half-open"]

_WINDOW_SECONDS = 1.0
_FEWEST = 5
"""Windows with fewer calls are not evaluated."""
_PROBES = 3
"""How many calls a half-open breaker lets through at a time, and how many successes close it."""


class Breaker:
    """A circuit breaker over the calls of one process to the store.

    Opens when at least half of the calls of a second failed. It stays open for ``open_ms`` at first, and twice as long
    each time that a probe fails, up to eight times ``open_ms``. Then it lets a few calls through as probes.

    Args:
        open_ms: how long it is open at first, in milliseconds.
        now: the present, in seconds.
        jitter: gives a number from 0 to 1, so that not all processes probe at once.
    """

    def __init__(self, open_ms: int, now: float, jitter: Callable[[], float]) -> None:
        self.open_ms = open_ms
        self.state: State = "closed"
        self._jitter = jitter
        self._began = now
        self._calls = self._failures = 0
        self._opened = 0
        """Times that it has opened since it was closed last."""
        self._until = self._probed = 0.0
        self._probing = self._succeeded = 0

    def refuses(self, now: float) -> float | None:
        """Lets a call through, or says for how many seconds it must not ask the store.

        Returns:
            None: it is let through, and its calls to the store are to be reported with ``ended``.
        """
        if self.state == "closed":
            return None
        if self.state == "open":
            if now < self._until:
                return self._until - now
            self.state, self._probing, self._succeeded = "half-open", 0, 0
        if self._probing >= _PROBES and now - self._probed < self.open_ms / 1000:
            return self.open_ms / 1000
        # A call that was let through need not ask the store, so after a while others are let through.
        self._probing = self._probing + 1 if self._probing < _PROBES else 1
        self._probed = now
        return None

    def probe(self) -> None:
        """Ends the pause, because the store answers again: the next calls are probes."""
        self._until = 0.0

    def open_for(self, now: float) -> float | None:
        """For how many seconds it stays open; None: it is not open. Unlike ``refuses``, this lets no probe through."""
        return self._until - now if self.state == "open" and now < self._until else None

    def shown(self, now: float) -> State:
        """The state as shown to operators: half-open as soon as it would let a call through as a probe."""
        return "half-open" if self.state == "open" and now >= self._until else self.state

    def ended(self, ok: bool, now: float) -> None:
        """A call ended; ``ok`` is false when the store gave no answer."""
        if self.state == "half-open":
            self._probing = max(0, self._probing - 1)
            if not ok:
                self._open(now)
            else:
                self._succeeded += 1
                if self._succeeded >= _PROBES:
                    self.state, self._opened = "closed", 0
                    self._began, self._calls, self._failures = now, 0, 0
            return
        if self.state == "open":
            return
        if now - self._began >= _WINDOW_SECONDS:
            self._began, self._calls, self._failures = now, 0, 0
        self._calls += 1
        if not ok:
            self._failures += 1
            if self._calls >= _FEWEST and 2 * self._failures >= self._calls:
                self._open(now)

    def _open(self, now: float) -> None:
        self.state = "open"
        seconds = self.open_ms / 1000
        self._until = now + Backoff(seconds, 8 * seconds, (0.75, 1.25), self._jitter).after(self._opened)
        self._opened += 1
