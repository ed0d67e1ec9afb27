"""The walk over a dependency graph, against a plain search, and with changes between reads."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from coordinator.toolsets.items.rules.dependencies.graph import Graph, StoredEdge, Walk

VALUE = "0" * 32 + "-"
CODES = {"BLOCKS": ("B", "b"), "IS_BLOCKED_BY": ("i", "I"), "RELATES_TO": ("R", "r")}


def stored(edges: Mapping[tuple[int, int], str], items: int) -> dict[str, list[StoredEdge]]:
    """Both ends of (blocker, blocked) -> type, as items hold them; of RELATES_TO (from, to)."""
    held: dict[str, list[StoredEdge]] = {str(item): [] for item in range(items)}
    for (first, second), type_name in edges.items():
        at_first, at_second = CODES[type_name]
        held[str(first)].append(StoredEdge(at_first, str(second), VALUE))
        held[str(second)].append(StoredEdge(at_second, str(first), VALUE))
    return held


def walked(held: Mapping[str, list[StoredEdge]], start: str, slice_size: int, ahead: bool, **limits: int) -> Graph:
    walk = Walk(start, **limits)
    while wanted := walk.wanted(slice_size):
        found = {item: held[item] for item in wanted if item in held}
        if ahead:
            known = {*wanted, *walk.before(wanted)}
            for item in [edge.other for edges in found.values() for edge in edges]:
                if item not in known:
                    found[item] = held[item]
        walk.add(wanted, found, True)
    return walk.graph()


def reachable(edges: Mapping[tuple[int, int], str], start: int) -> set[int]:
    seen, todo = {start}, [start]
    while todo:
        item = todo.pop()
        for pair, type_name in edges.items():
            if type_name != "RELATES_TO" and item in pair:
                for end in pair:
                    if end not in seen:
                        seen.add(end)
                        todo.append(end)
    return seen


def longest(edges: Mapping[tuple[int, int], str], within: set[int]) -> int:
    """Edges on the longest path; every edge goes from a smaller number to a larger one."""
    level = dict.fromkeys(sorted(within), 0)
    for (first, second), type_name in sorted(edges.items()):
        if type_name != "RELATES_TO" and first in within:
            level[second] = max(level[second], level[first] + 1)
    return max(level.values())


ITEMS = 9
# Edges go from smaller to larger numbers, so there is no cycle.
DAGS = st.dictionaries(
    st.tuples(st.integers(0, ITEMS - 1), st.integers(0, ITEMS - 1)).filter(lambda pair: pair[0] < pair[1]),
    st.sampled_from(sorted(CODES)),
    max_size=20,
)


@given(edges=DAGS, start=st.integers(0, ITEMS - 1), slice_size=st.integers(1, 4), ahead=st.booleans())
def test_the_walk_finds_connected_items_in_topological_order(
    edges: dict[tuple[int, int], str], start: int, slice_size: int, ahead: bool
) -> None:
    chain, depth, truncated = walked(stored(edges, ITEMS), str(start), slice_size, ahead)
    expected = reachable(edges, start)
    assert sorted(chain) == sorted(map(str, expected))
    for (first, second), type_name in edges.items():
        if type_name != "RELATES_TO" and first in expected:
            assert chain.index(str(first)) < chain.index(str(second))
    assert depth == longest(edges, expected)
    assert not truncated


def test_prefetches_do_not_change_the_order() -> None:
    edges = {(0, 3): "BLOCKS", (1, 3): "IS_BLOCKED_BY", (3, 4): "BLOCKS", (3, 5): "BLOCKS", (2, 5): "BLOCKS"}
    held = stored(edges, 6)
    for start in range(6):
        assert walked(held, str(start), 2, True) == walked(held, str(start), 2, False)


def test_the_walk_stops_at_its_limit_of_items() -> None:
    held = stored({(n, n + 1): "BLOCKS" for n in range(9)}, 10)
    assert walked(held, "0", 1, False, max_items=4) == Graph(["0", "1", "2", "3"], 3, True)
    assert walked(held, "0", 1, False, max_items=10) == Graph([str(n) for n in range(10)], 9, False)


def test_the_walk_stops_at_its_limit_of_edges() -> None:
    held = stored({(n, n + 1): "BLOCKS" for n in range(9)}, 10)
    graph = walked(held, "0", 1, False, max_edges=5)
    assert graph.truncated
    assert graph.chain == [str(n) for n in range(len(graph.chain))]
    assert 3 <= len(graph.chain) < 10


def test_an_early_end_of_reads_keeps_the_items_of_an_incomplete_graph() -> None:
    walk = Walk("a", max_edges=2)
    walk.add(walk.wanted(10), {"a": [StoredEdge("B", "b", VALUE), StoredEdge("B", "c", VALUE)]}, False)
    assert walk.wanted(10) == []
    assert walk.graph() == Graph(["a", "b", "c"], 1, True)


def test_an_item_that_was_deleted_meanwhile_is_left_out() -> None:
    held = stored({(0, 1): "BLOCKS", (1, 2): "BLOCKS"}, 3)
    del held["2"]
    assert walked(held, "0", 5, False) == Graph(["0", "1"], 1, False)
    assert walked({}, "0", 5, False) == Graph([], 0, False)


def test_an_apparent_cycle_between_reads_lists_each_item_once() -> None:
    held = {
        "a": [StoredEdge("B", "b", VALUE), StoredEdge("B", "c", VALUE)],
        "b": [StoredEdge("b", "a", VALUE), StoredEdge("B", "d", VALUE)],
        "c": [StoredEdge("b", "a", VALUE)],
        "d": [StoredEdge("B", "b", VALUE)],
    }
    chain, depth, truncated = walked(held, "a", 5, False)
    assert chain == ["a", "c", "b", "d"]
    assert depth >= 1
    assert not truncated
