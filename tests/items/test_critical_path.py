"""The critical path beside a plain search of all chains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.toolsets.items.rules.dependencies.critical_path import critical_path

NODES = st.integers(1, 9)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Weights of some nodes in any order, and edges that close no circle, some of them to nodes that are not there."""
    names = draw(st.permutations(range(draw(NODES))))
    weights = {name: draw(st.integers(1, 10)) for name in names}
    place = draw(st.permutations(names))
    pairs = [(one, other) for n, one in enumerate(place) for other in place[n + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return weights, [*edges, (names[0], 99), (98, names[0])]


def chains(one: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """All chains from a node on."""
    further = [
        chain for blocker, blocked in edges if blocker == one and blocked < 90 for chain in chains(blocked, edges)
    ]
    return [[one], *([one, *chain] for chain in further)]


@given(graphs())
def test_no_chain_is_heavier(graph: tuple[dict[int, int], list[tuple[int, int]]]) -> None:
    weights, edges = graph
    path = critical_path(weights, edges)
    possible = [chain for one in weights for chain in chains(one, edges) if len(chain) > 1]
    if not possible:
        assert path == []
        return
    assert path in possible
    assert sum(weights[one] for one in path) == max(sum(weights[one] for one in chain) for chain in possible)


def test_a_circle_is_on_no_chain() -> None:
    assert critical_path({1: 1, 2: 1, 3: 1, 4: 1}, [(1, 2), (2, 1), (3, 4), (2, 4)]) == []
    assert critical_path({1: 1, 2: 1, 3: 1, 4: 1}, [(1, 2), (2, 1), (3, 4)]) == [3, 4]


def test_a_long_chain() -> None:
    assert critical_path(dict.fromkeys(range(5000), 1), [(n, n + 1) for n in range(4999)]) == [*range(5000)]
