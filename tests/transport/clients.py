"""How often clients of other languages take the fast path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.transport.live import Live

CALLS = 100


def old(era: str) -> Any:
    """A mode of clients that the quicker tests of the fast path have, too."""
    return pytest.param(era, marks=pytest.mark.chaos)


@contextmanager
def hit_rate(live: Live, besides: int = 0) -> Iterator[None]:
    """Asserts that the fast path answers at least 98 of 100 calls, not counting ``besides`` intended misses."""
    before = live.app.fast_path.counts.copy()
    yield
    made = live.app.fast_path.counts - before
    hits = made.pop("hit", 0)
    assert hits >= CALLS
    assert hits >= 0.98 * (hits + made.total() - besides), made
