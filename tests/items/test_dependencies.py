"""manage_dependencies create: kinds, thresholds, patterns, and refusals, all or nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from tests.items.client import Client, fresh_id, told

pytestmark = pytest.mark.anyio

CYCLE = "the dependency would close a cycle of items that wait for each other"
DUPLICATE = "a dependency of this type between these items exists already"
SELF = "A dependency cannot reference the same item on both sides"


@pytest.fixture
async def ids(tools: Client) -> list[str]:
    return await tools.add_many(5)


async def pattern(tools: Client, shape: str, **fields: Any) -> dict[str, Any]:
    return await tools("manage_dependencies", operation="create", pattern=shape, **fields)


def ends(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(edge["fromItemId"], edge["toItemId"]) for edge in result["dependencies"]]


async def refused(tools: Client, *edges: tuple[str, ...]) -> list[tuple[int, str]]:
    """Index and error of each failure of a batch; (from, to), or with a type."""
    specs = [dict(zip(("fromItemId", "toItemId", "type"), edge, strict=False)) for edge in edges]
    before = (await audit(tools.store, tools.project)).edges
    result = await tools("manage_dependencies", operation="create", dependencies=specs)
    after = await audit(tools.store, tools.project)
    assert (result["dependencies"], result["created"], after.edges, after.differences) == ([], 0, before, [])
    assert (result["failed"], len(result["failures"])) == (1, 1)
    return told(result["failures"][0])


@pytest.mark.every_store
async def test_the_result_shows_each_edge(tools: Client, ids: list[str]) -> None:
    a, b, c, *_ = ids
    specs = [
        {"fromItemId": a, "toItemId": b},
        {"fromItemId": c, "toItemId": b, "type": "is-blocked-by", "unblockAt": "Work"},
        {"fromItemId": b, "toItemId": a, "type": "RELATES_TO"},
    ]
    result = await tools("manage_dependencies", operation="create", dependencies=specs)
    edges = result["dependencies"]
    assert result["created"] == 3
    assert "failed" not in result
    assert len({edge.pop("id") for edge in edges}) == 3
    assert edges == [
        {"fromItemId": a, "toItemId": b, "type": "BLOCKS"},
        {"fromItemId": c, "toItemId": b, "type": "IS_BLOCKED_BY", "unblockAt": "work"},
        {"fromItemId": b, "toItemId": a, "type": "RELATES_TO"},
    ]


async def test_shared_type_and_threshold_are_defaults(tools: Client, ids: list[str]) -> None:
    a, b, c, *_ = ids
    specs = [{"fromItemId": a, "toItemId": b}, {"fromItemId": a, "toItemId": c, "type": "BLOCKS", "unblockAt": "queue"}]
    result = await tools(
        "manage_dependencies", operation="create", dependencies=specs, type="IS_BLOCKED_BY", unblockAt="review"
    )
    assert [(edge["type"], edge["unblockAt"]) for edge in result["dependencies"]] == [
        ("IS_BLOCKED_BY", "review"),
        ("BLOCKS", "queue"),
    ]


async def test_linear_makes_a_chain(tools: Client, ids: list[str]) -> None:
    assert ends(await pattern(tools, "linear", itemIds=ids[:4])) == list(pairwise(ids[:4]))


async def test_fan_out_and_fan_in(tools: Client, ids: list[str]) -> None:
    a, b, c, d, e = ids
    assert ends(await pattern(tools, "fan-out", source=a, targets=[b, c])) == [(a, b), (a, c)]
    assert ends(await pattern(tools, "FAN-IN", sources=[b, c, d], target=e)) == [(b, e), (c, e), (d, e)]


async def test_a_pattern_takes_type_and_threshold(tools: Client, ids: list[str]) -> None:
    result = await pattern(tools, "linear", itemIds=ids[:2], type="IS_BLOCKED_BY", unblockAt="work")
    assert (result["dependencies"][0]["type"], result["dependencies"][0]["unblockAt"]) == ("IS_BLOCKED_BY", "work")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"dependencies": []},
        {"dependencies": [{"fromItemId": "0000", "toItemId": "0001"}], "pattern": "linear", "itemIds": ["0", "1"]},
        {"pattern": "linear"},
        {"pattern": "linear", "itemIds": ["0000"]},
        {"pattern": "fan-out", "source": "0000"},
        {"pattern": "fan-out", "source": "0000", "targets": []},
        {"pattern": "fan-out", "targets": ["0000"]},
        {"pattern": "fan-in", "target": "0000"},
        {"pattern": "fan-in", "sources": ["0000"]},
        {"pattern": "ring", "itemIds": ["0000", "1111"]},
        {"dependencies": [{"fromItemId": "0000", "toItemId": "0001"}], "type": "NEEDS"},
        {"dependencies": [{"fromItemId": "0000"}]},
        {"dependencies": [{"fromItemId": "0000", "toItemId": "0001"}] * (MAX_EDGES + 1)},
    ],
)
async def test_a_malformed_create_is_rejected_as_a_whole(tools: Client, arguments: dict[str, Any]) -> None:
    failure = await tools.refusal("manage_dependencies", operation="create", **arguments)
    assert failure.code == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"type": "NEEDS"}, "type: 'NEEDS' is not one of BLOCKS, IS_BLOCKED_BY, RELATES_TO"),
        ({"unblockAt": "blocked"}, "unblockAt: 'blocked' is not one of queue, work, review, terminal"),
        ({"unblockAt": "done"}, "unblockAt: 'done' is not one of"),
        ({"type": "RELATES_TO", "unblockAt": "work"}, "unblockAt: cannot be given for RELATES_TO"),
        ({"toItemId": "nope"}, "toItemId: must be a UUID or a hex prefix"),
        ({"toItemId": "00000000-0000-4000-8000-000000000000"}, "toItemId: no such item"),
        ({"fromItemId": "00000000"}, "fromItemId: no such item"),
        ({"fromItemId": "00000000", "toItemId": "00000001"}, "fromItemId: no such item"),
    ],
)
async def test_an_invalid_edge_prevents_all_others(
    tools: Client, ids: list[str], fields: dict[str, str], error: str
) -> None:
    good = {"fromItemId": ids[0], "toItemId": ids[1]}
    result = await tools(
        "manage_dependencies", operation="create", dependencies=[good, {**good, "toItemId": ids[2], **fields}]
    )
    assert (result["created"], result["failed"]) == (0, 1)
    assert result["failures"][0]["index"] == 1
    assert error in result["failures"][0]["error"]
    assert (await audit(tools.store, tools.project)).edges == 0


async def test_an_invalid_default_is_rejected_even_if_unused(tools: Client, ids: list[str]) -> None:
    edge = {"fromItemId": ids[0], "toItemId": ids[1], "type": "BLOCKS", "unblockAt": "work"}
    result = await tools("manage_dependencies", operation="create", dependencies=[edge], unblockAt="done")
    assert (result["created"], result["failed"]) == (0, 1)
    assert result["failures"][0]["error"].startswith("unblockAt: 'done' is not one of queue, work, review, terminal")
    assert (await tools.refusal("manage_dependencies", operation="create", dependencies=[edge], type="NEEDS")).code


async def test_an_edge_needs_two_items(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    for kind in ("BLOCKS", "IS_BLOCKED_BY", "RELATES_TO"):
        assert await refused(tools, (a, b), (a, a, kind)) == [(1, SELF)]


async def test_an_edge_of_one_type_exists_once(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    await tools.link(a, b)
    await tools.link(a, b, type="RELATES_TO")
    await tools.link(b, a, type="RELATES_TO")
    await tools.link(b, a, type="IS_BLOCKED_BY")
    assert await refused(tools, (a, b)) == [(0, DUPLICATE)]
    assert await refused(tools, (b, a, "IS_BLOCKED_BY")) == [(0, DUPLICATE)]
    assert await refused(tools, (b, a, "RELATES_TO")) == [(0, DUPLICATE)]


async def test_a_duplicate_within_the_batch_is_refused(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    assert await refused(tools, (a, b), (a, b)) == [(1, DUPLICATE)]


async def test_every_invalid_edge_of_a_batch_is_named(tools: Client, ids: list[str]) -> None:
    a, b, c, *_ = ids
    unknown = fresh_id()
    assert await refused(tools, (a, a), (a, b), (b, unknown), (a, b), (b, a), (b, c)) == [
        (0, SELF),
        (2, "toItemId: no such item"),
        (3, DUPLICATE),
        (4, CYCLE),
    ]
    malformed = [{"fromItemId": a, "toItemId": "?"}, {"fromItemId": a, "toItemId": b, "type": "NO"}] * 20
    answer = await tools("manage_dependencies", operation="create", dependencies=malformed)
    (failure,) = answer["failures"]
    assert (answer["failed"], failure["index"]) == (1, 0)
    assert failure["error"].startswith("toItemId: must be a UUID")
    assert "; edge 1: type: 'NO' is not one of" in failure["error"]
    assert failure["error"].endswith("; 19 more")


async def test_the_invalid_end_of_a_pattern_is_named(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    for shape, fields, place in (
        ("linear", {"itemIds": [a, b, fresh_id()]}, "itemIds[2]"),
        ("fan-out", {"source": a, "targets": [b, "00000"]}, "targets[1]"),
        ("fan-in", {"sources": [a, fresh_id()], "target": b}, "sources[1]"),
    ):
        answer = await pattern(tools, shape, **fields)
        assert answer["failures"] == [{"index": 1, "error": f"{place}: no such item"}]


@pytest.mark.parametrize(
    "closing",
    [
        ("c", "a", "BLOCKS"),
        ("a", "c", "IS_BLOCKED_BY"),
    ],
)
@pytest.mark.parametrize("one_batch", [True, False])
async def test_a_cycle_is_refused_in_both_notations(
    tools: Client, ids: list[str], closing: tuple[str, str, str], one_batch: bool
) -> None:
    """a before b, b before c (from c's side), so c before a is a cycle."""
    named = dict(zip("abc", ids, strict=False))
    first = [(named["a"], named["b"], "BLOCKS"), (named["c"], named["b"], "IS_BLOCKED_BY")]
    last = (named[closing[0]], named[closing[1]], closing[2])
    if one_batch:
        assert await refused(tools, *first, last) == [(2, CYCLE)]
    else:
        for source, target, kind in first:
            await tools.link(source, target, type=kind)
        assert await refused(tools, last) == [(0, CYCLE)]


async def test_both_notations_of_one_order_are_no_cycle(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    await tools.link(b, a)
    await tools.link(a, b, type="IS_BLOCKED_BY")
    assert await refused(tools, (b, a, "IS_BLOCKED_BY")) == [(0, CYCLE)]


async def test_relations_are_no_part_of_cycles(tools: Client, ids: list[str]) -> None:
    a, b, c, *_ = ids
    await tools.link(a, b)
    await tools.link(b, c)
    assert (await tools.try_link(c, a, type="RELATES_TO"))["created"] == 1
    await tools.unlink(fromItemId=a, toItemId=b)
    assert (await tools.try_link(c, a))["created"] == 1


async def test_a_deleted_edge_no_longer_closes_a_cycle(tools: Client, ids: list[str]) -> None:
    a, b, c, *_ = ids
    await pattern(tools, "linear", itemIds=[a, b, c])
    assert await refused(tools, (c, a)) == [(0, CYCLE)]
    await tools.delete(b)
    await tools.link(c, a)


async def test_long_chains_are_joined_from_either_end(tools: Client) -> None:
    """Levels must be repaired over both chains, whichever is longer."""
    front, back = await tools.add_many(40), await tools.add_many(10)
    for chain in (front, back):
        await pattern(tools, "linear", itemIds=chain)
    await tools.link(back[-1], front[0])
    assert await refused(tools, (front[-1], back[0])) == [(0, CYCLE)]
    other = await tools.add_many(30)
    await pattern(tools, "linear", itemIds=other)
    await tools.link(front[-1], other[0])
    assert await refused(tools, (other[-1], back[0]), (other[29], front[20])) == [(0, CYCLE), (1, CYCLE)]
