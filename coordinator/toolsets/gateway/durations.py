"""Tracks how long transitions and starts took lately in this process.

Calls that may take long go to the SDK's server. It can keep a client waiting, but costs a few times as much as the fast
path. A transition that was quick lately is answered by the fast path, within the deadline of quick calls. If it takes
longer this time, the answer says that it is still running (``inFlight``), and it counts as slow from then on.
"""

from __future__ import annotations

from collections import OrderedDict

QUICK_SECONDS = 0.1
"""A call that takes this long, or longer, is slow."""
_SHARE = 0.3
"""The weight of the latest time in the average."""
_MAX_KEYS = 20_000
"""The most keys that are tracked."""

Key = tuple[str, ...]
"""What was executed: the bundle's hash, the definition, and the transition or capability."""


class Durations:
    """A moving average of the time for each key."""

    def __init__(self) -> None:
        self._seconds: OrderedDict[Key, float] = OrderedDict()

    def quick(self, key: Key) -> bool:
        """Whether it was quick lately. An unknown key counts as slow."""
        return self._seconds.get(key, QUICK_SECONDS) < QUICK_SECONDS

    def note(self, key: Key, seconds: float) -> None:
        """Records that it took ``seconds`` or longer."""
        before = self._seconds.pop(key, seconds)
        # A slow time replaces the average, so that the next caller is not kept waiting on the fast path.
        self._seconds[key] = seconds if seconds >= QUICK_SECONDS else before + (seconds - before) * _SHARE
        if len(self._seconds) > _MAX_KEYS:
            self._seconds.popitem(last=False)
