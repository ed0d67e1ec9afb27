"""Trees and neighbourhoods as graphs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.store.boards.tree_graph import TreeGraph, read_neighbourhood, read_tree
from tests.items.client import Client
from tests.items.planting import edge, plant

pytestmark = pytest.mark.anyio


def inner(item: str) -> str:
    return item.replace("-", "")


def titles(found: TreeGraph) -> list[str]:
    return [node.title for node in found.nodes]


async def test_a_small_tree_with_its_critical_path(tools: Client, store: Store, project: str) -> None:
    ids = await plant(tools, deps=[edge("a", "b"), edge("b", "c")])
    outside = await tools.add("outside")
    await tools.link(outside, ids["c"])
    await tools.link(ids["a"], outside)
    await tools.update(ids["b"], complexity=10)
    await tools.claim("x", ids["a"])
    await tools.advance(ids["a"], "start", actor={"id": "x", "kind": "subagent"})
    found = await read_tree(store, project, inner(ids["root"]))
    assert (found.total, sorted(titles(found)), found.cut, found.all_edges) == (4, ["A", "B", "C", "R"], False, True)
    assert found.nodes[0].title == "R"
    at = {node.title: place for place, node in enumerate(found.nodes)}
    assert {(found.nodes[one.blocker].title, found.nodes[one.blocked].title, one.satisfied) for one in found.edges} == {
        ("A", "B", False),
        ("B", "C", False),
    }
    a, c = found.nodes[at["A"]], found.nodes[at["C"]]
    assert (a.holder, a.expires > found.now, ROLE_NAMES[a.role], a.parent) == ("x", True, "work", inner(ids["root"]))
    assert (c.blockers, c.holder) == (2, "")
    assert found.below[0] == (3, 0, 0)
    assert found.critical_path() == [at["A"], at["B"], at["C"]]
    await tools.advance(ids["a"], "complete", actor={"id": "x", "kind": "subagent"})
    found = await read_tree(store, project, inner(ids["root"]))
    assert found.below[0] == (3, 1, 0)
    assert [found.nodes[place].title for place in found.critical_path(by_complexity=True)] == ["B", "C"]
    assert sum(one.satisfied for one in found.edges) == 1


async def test_what_has_ended_is_hidden_first(tools: Client, store: Store, project: str) -> None:
    root = await tools.add("root")
    ended, mixed = [await tools.add(title, parentId=root) for title in ("ended", "mixed")]
    for parent, count in ((ended, 4), (mixed, 3)):
        below = await tools.add_many(count, parentId=parent)
        for item in below[: count if parent == ended else 1]:
            await tools.advance(item, "cancel")
    assert await tools.role(ended) == "terminal"
    whole = await read_tree(store, project, inner(root), 10)
    assert (len(whole.nodes), whole.total, whole.cut) == (10, 10, False)
    part = await read_tree(store, project, inner(root), 9)
    assert (sorted(titles(part)), part.total, part.cut) == (["1", "2", "mixed", "root"], 10, False)
    under = dict(zip(titles(part), part.below, strict=True))
    assert under["root"] == (9, 6, 6)
    assert under["mixed"] == (3, 1, 1)
    less = await read_tree(store, project, inner(root), 3)
    assert (len(less.nodes), less.total, less.cut) == (3, 10, True)


async def test_a_large_tree_is_counted(tools: Client, store: Store, project: str) -> None:
    root = await tools.add("root")
    for _ in range(3):
        await tools.create(*({"title": "x", "parentId": root} for _ in range(700)))
    found = await read_tree(store, project, inner(root))
    assert (found.total, len(found.nodes), found.cut) == (2101, 300, True)
    assert found.below[0] == (-1, -1, -1)


async def test_a_chain_over_a_tree_of_many(tools: Client, store: Store, project: str) -> None:
    root = await tools.add("root")
    ids = await tools.add_many(299, parentId=root)
    await tools.link_all(pairwise(ids))
    found = await read_tree(store, project, inner(root))
    assert (len(found.nodes), len(found.edges), found.cut) == (300, 298, False)
    assert [found.nodes[place].title for place in found.critical_path()] == [str(n) for n in range(299)]


async def test_a_neighbourhood(tools: Client, store: Store, project: str) -> None:
    item, *others = await tools.add_many(5)
    before, after, related = others[:2], others[2:3], others[3]
    for one in before:
        await tools.link(one, item)
    await tools.link(item, after[0])
    await tools.link(before[0], after[0])
    await tools.link(item, related, type="RELATES_TO")
    found = await read_neighbourhood(store, project, inner(item))
    assert (found.blockers, found.blocked, found.all_edges) == (2, 1, True)
    assert [node.id for node in found.nodes] == [inner(item), *sorted(map(inner, before)), inner(after[0])]
    named = {(found.nodes[one.blocker].id, found.nodes[one.blocked].id) for one in found.edges}
    assert named == {
        *((inner(one), inner(item)) for one in before),
        (inner(item), inner(after[0])),
        (inner(before[0]), inner(after[0])),
    }
    with pytest.raises(ToolFailure) as refused:
        await read_neighbourhood(store, project, "0" * 32)
    assert refused.value.code == "RESOURCE_NOT_FOUND"
    with pytest.raises(ToolFailure):
        await read_tree(store, project, "0" * 32)
