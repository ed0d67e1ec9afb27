"""How long executing a transition or a start has taken lately, as far as one process has seen it.

Calls that may take long are answered by the complete protocol server, which can keep a client
waiting; that costs a few times what a quick call costs. What has been quick lately is
answered the quick way, within the deadline of such calls: should it take longer this
once, the answer says that it goes on (``inFlight``), and from then on it counts as slow.
"""

from __future__ import annotations

from collections import OrderedDict

QUICK_SECONDS = 0.1
"""What takes this long, or longer, is slow."""
_SHARE = 0.3
"""The weight of the newest time in the average."""
_MAX_KEYS = 20_000
"""Keys that are remembered."""

Key = tuple[str, ...]
"""What was executed: the bundle's hash, the definition, and the transition or capability."""


class Durations:
    """A moving average of the time for each key."""

    def __init__(self) -> None:
        self._seconds: OrderedDict[Key, float] = OrderedDict()

    def quick(self, key: Key) -> bool:
        """Whether it has been quick lately; what has not been seen yet counts as slow."""
        return self._seconds.get(key, QUICK_SECONDS) < QUICK_SECONDS

    def note(self, key: Key, seconds: float) -> None:
        """Records that it took so long, or longer."""
        before = self._seconds.pop(key, seconds)
        # A slow time takes the place of the average: the next caller should not be kept waiting on the fast path.
        self._seconds[key] = seconds if seconds >= QUICK_SECONDS else before + (seconds - before) * _SHARE
        if len(self._seconds) > _MAX_KEYS:
            self._seconds.popitem(last=False)
