"""What became of an item that its agent has left, in words."""

from __future__ import annotations

import pytest

from coordinator.client.standing import left


@pytest.mark.parametrize(
    ("failed", "most", "back_off", "said"),
    [
        (0, 5, "", "given back"),
        (0, 0, "", "given back"),
        (1, 5, "", "failed, 4 attempts left"),
        (4, 5, "", "failed, 1 attempt left"),
        (5, 5, "", "failed, no attempts left"),
        (6, 5, "", "failed, no attempts left"),  # the limit was lowered
        (3, 0, "", "failed"),
        (1, 5, "2026-01-01T00:00:00Z", "in back-off until 2026-01-01T00:00:00Z"),
    ],
)
def test_what_is_said(failed: int, most: int, back_off: str, said: str) -> None:
    assert left(failed, most, back_off) == said
