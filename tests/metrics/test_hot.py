"""The most contended items."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.metrics.hot import Hot, HotItems, publish, published


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_most_contended_comes_first_and_cools_down() -> None:
    clock = Clock()
    hot = HotItems(clock)
    for item, times in (("a", 4), ("b", 40), ("c", 1)):
        for _ in range(times):
            hot.lost("p", item)
    assert hot.top(2) == [Hot("p", "b", 40.0), Hot("p", "a", 4.0)]
    clock.now = 120.0
    assert hot.top(5) == [Hot("p", "b", 10.0), Hot("p", "a", 1.0)]
    clock.now = 1200.0
    assert hot.top(5) == []


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2000), max_size=3000))
def test_it_is_bounded_and_counts_no_item_too_low(items: list[int]) -> None:
    hot = HotItems(Clock())
    for item in items:
        hot.lost("p", str(item))
    found = hot.top(10_000)
    assert len(found) <= 256
    real = Counter(map(str, items))
    assert all(one.losers >= real[one.item] for one in found)
    least = min((one.losers for one in found), default=0.0)
    kept = {one.item for one in found}
    assert all(count <= least for item, count in real.items() if item not in kept)


def test_hot_items_replace_cold_ones() -> None:
    clock = Clock()
    hot = HotItems(clock)
    for item in range(256):
        hot.lost("p", str(item))
    for _ in range(10):
        hot.lost("p", "new")
    assert hot.top(1) == [Hot("p", "new", 11.0)]
    clock.now = 120.0
    hot.lost("p", "first after a pause")
    assert hot.top(3) == [Hot("p", "new", 2.8), Hot("p", "first after a pause", 1.0)]


def test_processes_are_added_up(tmp_path: Path) -> None:
    publish(tmp_path, "fe-0", [Hot("p", "a", 3.0), Hot("p", "b", 1.0)])
    publish(tmp_path, "fe-1", [Hot("p", "a", 2.0), Hot("q", "a", 4.0)])
    (tmp_path / "fe-2.hot.json").write_text("[half")
    assert published(tmp_path, 2) == [Hot("p", "a", 5.0), Hot("q", "a", 4.0)]
