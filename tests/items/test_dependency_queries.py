"""query_dependencies: filters, counts, edges, and the graph around an item."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.rules.ids import new_id
from tests.items.client import Client, Json

pytestmark = pytest.mark.anyio

BLOCKING = ("BLOCKS", "IS_BLOCKED_BY")


async def ends(tools: Client, item: str, **filters: str) -> set[tuple[str, str, str]]:
    """(from, to, type) of each edge that is listed."""
    found = (await tools("query_dependencies", itemId=item, **filters))["dependencies"]
    return {(edge["fromItemId"], edge["toItemId"], edge["type"]) for edge in found}


async def six_edges(tools: Client) -> tuple[str, dict[str, tuple[str, str, str]]]:
    """An item with one edge of each type in each direction, by meaning for the item."""
    item, *others = await tools.add_many(7)
    edges = {
        "blocks it": (others[0], item, "BLOCKS"),
        "it is blocked by": (item, others[1], "IS_BLOCKED_BY"),
        "it blocks": (item, others[2], "BLOCKS"),
        "is blocked by it": (others[3], item, "IS_BLOCKED_BY"),
        "it relates to": (item, others[4], "RELATES_TO"),
        "relates to it": (others[5], item, "RELATES_TO"),
    }
    for source, target, type_name in edges.values():
        await tools.link(source, target, type=type_name)
    return item, edges


async def test_an_item_without_edges_has_an_empty_answer(tools: Client) -> None:
    item = await tools.add()
    counts = {"incoming": 0, "outgoing": 0, "relatesTo": 0}
    assert await tools("query_dependencies", itemId=item) == {"dependencies": [], "counts": counts}
    graph = {"chain": [item], "depth": 0}
    answer = await tools("query_dependencies", itemId=item, neighborsOnly=False, includeItemInfo=True)
    assert answer == {"dependencies": [], "counts": counts, "graph": graph}


async def test_an_edge_shows_its_threshold_and_on_request_both_items(tools: Client) -> None:
    source = await tools.add("t" * 90, priority="high")
    target = await tools.add("after", priority="low")
    edge = {"id": await tools.link(source, target), "fromItemId": source, "toItemId": target, "type": "BLOCKS"}
    edge["effectiveUnblockRole"] = "terminal"
    await tools.move(source, "start")
    for item, counts in ((source, (0, 1)), (target, (1, 0))):
        shown = {"incoming": counts[0], "outgoing": counts[1], "relatesTo": 0}
        assert await tools("query_dependencies", itemId=item) == {"dependencies": [edge], "counts": shown}
    items = {
        "fromItem": {"title": "t" * 90, "role": "work", "priority": "high"},
        "toItem": {"title": "after", "role": "queue", "priority": "low"},
    }
    answer = await tools("query_dependencies", itemId=target, includeItemInfo=True)
    assert answer["dependencies"] == [edge | items]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, {"effectiveUnblockRole": "terminal"}),
        ({"unblockAt": "terminal"}, {"unblockAt": "terminal", "effectiveUnblockRole": "terminal"}),
        ({"unblockAt": "work"}, {"unblockAt": "work", "effectiveUnblockRole": "work"}),
        ({"unblockAt": "queue"}, {"unblockAt": "queue", "effectiveUnblockRole": "queue"}),
        ({"type": "RELATES_TO"}, {}),
    ],
)
async def test_given_and_effective_thresholds_are_shown(tools: Client, given: Json, shown: Json) -> None:
    source, target = await tools.add_many(2)
    await tools.link(source, target, **given)
    (edge,) = (await tools("query_dependencies", itemId=source))["dependencies"]
    assert {field: edge[field] for field in edge if "nblock" in field} == shown


@pytest.mark.every_store
async def test_incoming_edges_block_the_item_in_either_notation(tools: Client) -> None:
    item, edges = await six_edges(tools)
    incoming = {edges["blocks it"], edges["it is blocked by"], edges["relates to it"]}
    assert await ends(tools, item, direction="incoming") == incoming
    assert await ends(tools, item, direction="outgoing") == set(edges.values()) - incoming
    for everything in ({}, {"direction": "all"}, {"direction": ""}, {"direction": "ALL"}):
        assert await ends(tools, item, **everything) == set(edges.values())


async def test_the_type_filter_takes_any_case_and_goes_with_the_direction(tools: Client) -> None:
    item, edges = await six_edges(tools)
    assert await ends(tools, item, type="BLOCKS") == {edges["blocks it"], edges["it blocks"]}
    for spelling in ("RELATES_TO", "relates-to"):
        assert await ends(tools, item, type=spelling) == {edges["it relates to"], edges["relates to it"]}
    assert await ends(tools, item, type="is_blocked_by", direction="outgoing") == {edges["is blocked by it"]}


async def test_counts_cover_all_edges_for_any_filter(tools: Client) -> None:
    item, _ = await six_edges(tools)
    counts = {"incoming": 2, "outgoing": 2, "relatesTo": 2}
    for filters in ({}, {"direction": "incoming"}, {"type": "RELATES_TO"}, {"direction": "outgoing", "type": "BLOCKS"}):
        assert (await tools("query_dependencies", itemId=item, **filters))["counts"] == counts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": "up"}, "direction: 'up' is not one of incoming, outgoing, all"),
        ({"type": "NEEDS"}, "type: 'NEEDS' is not one of BLOCKS, IS_BLOCKED_BY, RELATES_TO"),
        ({"depth": 1}, "depth"),
        ({"neighborsOnly": "no"}, "neighborsOnly"),
    ],
)
async def test_invalid_arguments_are_rejected(tools: Client, arguments: Json, message: str) -> None:
    failure = await tools.refusal("query_dependencies", itemId=await tools.add(), **arguments)
    assert failure.code == "VALIDATION_ERROR"
    assert message in failure.message


# --- graph


async def graph_of(tools: Client, item: str) -> tuple[list[str], int]:
    graph = (await tools("query_dependencies", itemId=item, neighborsOnly=False))["graph"]
    assert set(graph) == {"chain", "depth"}
    return graph["chain"], graph["depth"]


@pytest.mark.parametrize("type_name", BLOCKING)
async def test_a_chain_is_listed_blocker_first_from_any_item(tools: Client, type_name: str) -> None:
    ids = await tools.add_many(5)
    for before, after in pairwise(ids):
        ends_of_edge = (before, after) if type_name == "BLOCKS" else (after, before)
        await tools.link(*ends_of_edge, type=type_name)
    for item in ids:
        assert await graph_of(tools, item) == (ids, 4)


async def test_depth_is_the_longest_path_and_the_graph_has_both_sides(tools: Client) -> None:
    top, left, right, low, aside, apart = await tools.add_many(6)
    for source, target in ((top, left), (top, right), (left, right), (right, low), (aside, low)):
        await tools.link(source, target)
    await tools.link(low, apart, type="RELATES_TO")
    for item in (top, left, right, low, aside):
        chain, depth = await graph_of(tools, item)
        assert sorted(chain) == sorted([top, left, right, low, aside])
        assert chain.index(top) < chain.index(left) < chain.index(right) < chain.index(low) > chain.index(aside)
        assert depth == 3
    assert await graph_of(tools, apart) == ([apart], 0)


async def test_filters_do_not_affect_the_graph(tools: Client) -> None:
    first, second, third = await tools.add_many(3)
    await tools.link(first, second)
    await tools.link(second, third)
    answer = await tools("query_dependencies", itemId=second, neighborsOnly=False, direction="outgoing", type="BLOCKS")
    assert [edge["toItemId"] for edge in answer["dependencies"]] == [third]
    assert answer["graph"] == {"chain": [first, second, third], "depth": 2}


# --- more than one run reads


@pytest.mark.every_store
async def test_an_item_with_many_edges_is_read_whole_and_each_edge_once(tools: Client) -> None:
    sources = await tools.add_many(599)
    hub, last = await tools.add_many(2)
    await tools.link_all((source, hub) for source in sources)
    await tools.link(hub, last)
    answer = await tools("query_dependencies", itemId=hub, includeItemInfo=True, neighborsOnly=False)
    assert (len(answer["dependencies"]), answer["total"], answer["nextOffset"]) == (50, 600, 50)
    edges = await tools.pages("query_dependencies", "dependencies", itemId=hub, includeItemInfo=True, limit=200)
    assert sorted(edge["fromItemId"] for edge in edges) == sorted([*sources, hub])
    assert sorted(edge["fromItem"]["title"] for edge in edges) == sorted(["0", *(str(number) for number in range(599))])
    assert answer["counts"] == {"incoming": 599, "outgoing": 1, "relatesTo": 0}
    chain, depth = answer["graph"]["chain"], answer["graph"]["depth"]
    assert sorted(chain[:-2]) == sorted(sources)
    assert (chain[-2:], depth) == ([hub, last], 2)
    assert "truncated" not in answer
    assert "truncated" not in answer["graph"]


@pytest.mark.every_store
async def test_a_long_chain_is_found_from_its_middle_in_few_runs(tools: Client) -> None:
    ids = await tools.add_many(450)
    await tools.link_all(pairwise(ids))
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    assert await graph_of(tools, ids[200]) == (ids, 449)
    assert runs.count("read_edges") <= 8


async def test_a_graph_too_large_for_an_answer_is_cut_and_marked(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an item with more edges than the current limit."""
    hub = await tools.add()
    edges = [word for _ in range(1200) for word in (f"b{new_id()}", f"{new_id()}-")]
    await tools.store.client.hset(keys.edges.key(tools.project, hub.replace("-", "")), items=edges)
    monkeypatch.setattr("coordinator.toolsets.items.tools.dependencies.MAX_LISTED_EDGES", 500)
    answer = await tools("query_dependencies", itemId=hub)
    assert answer["truncated"] is True
    assert 500 <= answer["total"] < 1200
