"""Short forms of amounts. Those of resources and budgets: ``cli/test_items_command.py``."""

from __future__ import annotations

import pytest

from coordinator.client.short_forms import money


@pytest.mark.parametrize(
    ("micro_usd", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (3_100, "$0.0031"),
        (9_999, "$0.009999"),
        (10_000, "$0.01"),
        (2_500_000, "$2.50"),
        (1_250_400_000, "$1,250.40"),
    ],
)
def test_money_shows_what_is_less_than_a_cent(micro_usd: int, shown: str) -> None:
    assert money(micro_usd) == shown
