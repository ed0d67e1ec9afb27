"""Large repairs of levels: the rule against a plain reference, and joins of long chains."""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.store import Script, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.rules.dependencies.levels import Move, Repair, added
from tests.items.calls import contents
from tests.items.client import Client, Json

pytestmark = pytest.mark.anyio

Graph = dict[str, set[str]]
"""What each item blocks."""


def reaches(graph: Graph, start: str, end: str) -> bool:
    """Whether there is a way along edges."""
    seen, todo = {start}, [start]
    while todo:
        item = todo.pop()
        if item == end:
            return True
        new = graph.get(item, set()) - seen
        seen |= new
        todo += new
    return False


# --- the rule


def in_parts(repair: Repair, edges: Iterable[tuple[str, str]], levels: dict[str, int], parts: Sequence[int]) -> None:
    """Answers the reads of a repair in parts of these sizes, last part first."""
    near = added(edges, repair.step)
    turn = 0
    while not repair.done:
        items = repair.wanted(parts[turn % len(parts)])
        replies = [[(other, levels[other]) for other in near.get(item, ())] for item in items]
        repair.look(items, replies[: parts[-1 - turn % len(parts)]])
        turn += 1


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[str, int], tuple[str, str]]:
    """An acyclic graph, levels that rise along its edges, and a new edge that does not rise yet."""
    count = draw(st.integers(2, 14))
    items = draw(st.permutations([f"i{n}" for n in range(count)]))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = [(items[low], items[high]) for low, high in draw(st.lists(ends, max_size=40, unique=True))]
    levels: dict[str, int] = {}
    for item in items:
        least = max((levels[blocker] + 1 for blocker, blocked in edges if blocked == item), default=-3)
        levels[item] = least + draw(st.integers(0, 3))
    one, other = draw(st.sampled_from(items)), draw(st.sampled_from(items))
    if levels[one] < levels[other]:
        one, other = other, one
    return edges, levels, (one, other)


def moved(levels: dict[str, int], move: Move, step: int) -> None:
    item, level = move
    if (level - levels[item]) * step > 0:
        levels[item] = level


@given(graphs(), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.sampled_from([1, -1]))
def test_a_repair_makes_the_needed_moves_or_finds_the_cycle(
    drawn: tuple[list[tuple[str, str]], dict[str, int], tuple[str, str]], parts: list[int], step: int
) -> None:
    edges, levels, (blocker, blocked) = drawn
    graph: Graph = defaultdict(set)
    for low, high in edges:
        graph[low].add(high)
    start, stop = (blocked, blocker) if step > 0 else (blocker, blocked)
    if blocker == blocked:
        return
    repair = Repair(start, levels[stop] + step, step, stop)
    in_parts(repair, edges, levels, parts)
    assert not repair.torn
    assert repair.cyclic == reaches(graph, blocked, blocker)
    if repair.cyclic:
        return
    before = dict(levels)
    for move in repair.moves():
        moved(levels, move, step)
        assert all(levels[low] < levels[high] for low, high in edges), "an order of the graph after each of them"
    assert levels[blocker] < levels[blocked]
    for item in levels:
        # No item moves unnecessarily or too far.
        near = [other for low, high in edges for other in ((low,) if step > 0 else (high,))
                if item == (high if step > 0 else low)] + ([stop] if item == start else [])  # fmt: skip
        least = [levels[other] + step for other in near]
        assert levels[item] == before[item] or levels[item] in least


@given(st.integers(1, 30), st.integers(0, 20), st.sampled_from([1, -1]), st.lists(st.integers(1, 9), min_size=1))
def test_an_apparent_cycle_between_reads_ends_the_repair(size: int, lead: int, step: int, parts: list[int]) -> None:
    ring = [f"r{n}" for n in range(size)]
    way = ["start", *(f"l{n}" for n in range(lead)), ring[0]]
    edges = [*pairwise(way), *pairwise([*ring, ring[0]])]
    repair = Repair("start", 0, step, "stop")
    directed = edges if step > 0 else [(high, low) for low, high in edges]
    in_parts(repair, directed, dict.fromkeys([*way, *ring], 0), parts)
    assert (repair.torn, repair.cyclic) == (True, False)


def test_neighbours_of_edges() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "c")]
    assert added(edges, 1) == {"a": ["b", "c"], "b": ["c"]}
    assert added(edges, -1) == {"b": ["a"], "c": ["a", "b"]}


# --- long chains


async def chain(tools: Client, count: int) -> list[str]:
    """Items each of which blocks the next one."""
    ids: list[str] = []
    while len(ids) < count:
        ids += await tools.add_many(min(500, count - len(ids)))
    for start in range(0, count - 1, MAX_EDGES):
        part = ids[start : start + MAX_EDGES + 1]
        assert (await linear(tools, part))["created"] == len(part) - 1
    return ids


async def linear(tools: Client, ids: list[str]) -> Json:
    return await tools("manage_dependencies", operation="create", pattern="linear", itemIds=ids)


async def link_pairs(tools: Client, *pairs: tuple[str, str]) -> Json:
    """Creates edges in one call."""
    edges = [{"fromItemId": source, "toItemId": target} for source, target in pairs]
    return await tools("manage_dependencies", operation="create", dependencies=edges)


def watched(tools: Client) -> list[str]:
    """The scripts that a client runs from now on."""
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    return runs


async def levels_of(tools: Client, ids: Iterable[str]) -> list[int]:
    names = [item.replace("-", "") for item in ids]
    return [int(await tools.store.command("HGET", keys.item.key(tools.project, name), "lv") or 0) for name in names]


def refused_at(answer: Json) -> list[int]:
    """The edges that close a cycle, in a call rejected only for that."""
    assert answer["created"] == 0
    (failure,) = answer["failures"]
    errors = re.split(r"; edge \d+: ", failure["error"])
    assert {error[:39] for error in errors} == {"the dependency would close a cycle of i"}
    return bad_edges(answer)


def bad_edges(answer: Json) -> list[int]:
    """The first bad edge of a batch, and those that its text names."""
    failures = answer.get("failures", ())
    return [
        n
        for failure in failures
        for n in (failure["index"], *map(int, re.findall(r"; edge (\d+): ", failure["error"])))
    ]


async def sound(tools: Client) -> bool:
    return not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize(
    ("first", "second"),
    [*(pytest.param(*sizes, marks=pytest.mark.chaos) for sizes in ((400, 400), (400, 200))), (200, 400)],
)
async def test_long_chains_are_joined_in_slices_and_not_joined_back(tools: Client, first: int, second: int) -> None:
    a, b = await chain(tools, first), await chain(tools, second)
    runs = watched(tools)
    # The smaller side moves.
    before = await levels_of(tools, a), await levels_of(tools, b)
    assert (await tools.try_link(b[0], a[-1], type="IS_BLOCKED_BY"))["created"] == 1
    assert {"read_neighbours", "shift_levels"} <= set(runs)
    after = await levels_of(tools, a), await levels_of(tools, b)
    assert all(low < high for low, high in pairwise([*after[0], *after[1]]))
    assert [one == other for one, other in zip(before, after, strict=True)].count(True) == 1
    if first != second:
        assert after[int(first < second)] == before[int(first < second)], "the longer one stays"
    await refused_back(tools, a, b)
    assert (await link_pairs(tools, (a[0], b[-1]), (a[7], b[0]), (a[-1], b[9])))["created"] == 3
    assert await sound(tools)


async def refused_back(tools: Client, a: list[str], b: list[str]) -> None:
    """Any edge from the end of joined chains to their beginning is rejected without effect."""
    stood = await contents(tools)
    for back in ((b[-1], a[0]), (b[150], a[90])):
        assert refused_at(await link_pairs(tools, back)) == [0]
        assert refused_at(await link_pairs(tools, (a[0], b[-1]), back, (a[1], b[-2]))) == [1]
    assert await contents(tools) == stood


async def test_the_end_of_a_chain_does_not_block_its_beginning(tools: Client) -> None:
    ids = await chain(tools, 500)
    runs = watched(tools)
    assert refused_at(await link_pairs(tools, (ids[-1], ids[0]))) == [0]
    answer = await tools.try_link(ids[0], ids[-1], type="IS_BLOCKED_BY")
    assert refused_at(answer) == [0]
    assert "read_neighbours" in runs
    assert "shift_levels" not in runs
    assert (await tools.try_link(ids[-1], ids[0], type="RELATES_TO"))["created"] == 1
    assert await levels_of(tools, ids) == list(range(500))
    assert await sound(tools)


@pytest.mark.parametrize("size", [110, pytest.param(320, marks=pytest.mark.chaos)])
async def test_an_edge_of_a_batch_makes_a_later_one_close_a_cycle(tools: Client, size: int) -> None:
    """Together, also the shorter ones have more edges than one script reads."""
    a, b, c = [await chain(tools, size) for _ in range(3)]
    ring = [(a[-1], b[0]), (b[-1], c[0]), (c[-1], a[0])]
    assert refused_at(await link_pairs(tools, *ring)) == [2]
    assert refused_at(await link_pairs(tools, *reversed(ring))) == [2]
    assert refused_at(await link_pairs(tools, ring[0], (b[-1], a[0]), ring[1], ring[2], (c[-20], b[40]))) == [1, 3, 4]
    assert (await audit(tools.store, tools.project)).edges == 3 * (size - 1)
    assert (await link_pairs(tools, *ring[1:]))["created"] == 2
    assert refused_at(await link_pairs(tools, ring[0])) == [0]
    assert await sound(tools)


async def test_rejected_edges_of_a_batch_are_not_followed(tools: Client) -> None:
    a, b = await chain(tools, 350), await chain(tools, 350)
    x, y = await tools.add_many(2)
    answer = await link_pairs(
        tools, (b[0], x), (x, y), (y, x), (b[3], b[3]), (b[9], b[8]), (b[5], b[6]), (a[-1], b[0]), (b[-1], a[0])
    )
    assert answer["created"] == 0
    assert bad_edges(answer) == [2, 3, 4, 5, 7]
    # Both ways: a rejected edge may be above or below.
    answer = await link_pairs(tools, (x, a[-1]), (y, x), (x, y), (a[2], a[2]), (a[-1], b[0]), (b[-1], a[0]))
    assert bad_edges(answer) == [2, 3, 5]
    assert (await link_pairs(tools, (b[0], x), (x, y), (a[-1], b[0])))["created"] == 3
    assert await sound(tools)


async def test_one_of_two_calls_that_join_chains_both_ways_succeeds(clients: list[Client]) -> None:
    a, b = await asyncio.gather(chain(clients[0], 350), chain(clients[1], 350))
    answers = await asyncio.gather(link_pairs(clients[1], (a[-1], b[0])), link_pairs(clients[2], (b[-1], a[0])))
    assert sorted(answer["created"] for answer in answers) == [0, 1]
    assert refused_at(min(answers, key=lambda answer: int(answer["created"]))) == [0]


async def test_two_of_three_calls_that_close_a_ring_of_chains_succeed(clients: list[Client]) -> None:
    a, b, c = await asyncio.gather(*(chain(client, 350) for client in clients))
    ring = [(a[-1], b[0]), (b[-1], c[0]), (c[-1], a[0])]
    answers = await asyncio.gather(*(link_pairs(client, pair) for client, pair in zip(clients, ring, strict=True)))
    assert sorted(answer["created"] for answer in answers) == [0, 1, 1]


# --- any graph


class Known:
    """A dependency graph with plain search."""

    def __init__(self, chains: Iterable[list[str]]) -> None:
        self.graph: Graph = defaultdict(set)
        self.edges: set[tuple[str, str, str]] = set()
        for ids in chains:
            for source, target in pairwise(ids):
                self.edges.add((source, target, "BLOCKS"))
                self.graph[source].add(target)

    def refused(self, batch: Sequence[tuple[str, str, str]]) -> list[int]:
        """The positions that must be rejected; if there are none, all edges are added."""
        taken: list[tuple[str, str]] = []
        problems: list[int] = []
        known = set(self.edges)
        for number, edge in enumerate(batch):
            source, target, kind = edge
            blocker, blocked = (source, target) if kind == "BLOCKS" else (target, source)
            if source == target or edge in known or reaches(self.graph, blocked, blocker):
                problems.append(number)
                known |= {edge} if source != target else set()
                continue
            known.add(edge)
            if blocked not in self.graph[blocker]:
                self.graph[blocker].add(blocked)
                taken.append((blocker, blocked))
        if problems:
            for blocker, blocked in taken:
                self.graph[blocker].remove(blocked)
        else:
            self.edges = known
        return problems


@pytest.mark.parametrize("slice_of", [pytest.param(7, marks=pytest.mark.chaos), 50])
async def test_batches_in_any_order_are_rejected_only_for_cycles(
    tools: Client, monkeypatch: pytest.MonkeyPatch, slice_of: int
) -> None:
    monkeypatch.setattr("coordinator.toolsets.items.store.dependencies.SLICE", slice_of)
    chance = random.Random(slice_of)
    chains = [await chain(tools, 180) for _ in range(4)]
    known, runs, refused = Known(chains), watched(tools), 0

    def one() -> tuple[str, str, str]:
        first, second = chance.sample(range(4), 2)
        # From anywhere near an end to anywhere near a beginning: either way there is much to be moved.
        source, target = chains[first][chance.randrange(130, 180)], chains[second][chance.randrange(50)]
        return (source, target, "BLOCKS") if chance.random() < 0.5 else (target, source, "IS_BLOCKED_BY")

    for _ in range(15):
        batch = [one() for _ in range(chance.choice([1, 1, 2, 5]))]
        edges = [{"fromItemId": source, "toItemId": target, "type": kind} for source, target, kind in batch]
        answer = await tools("manage_dependencies", operation="create", dependencies=edges)
        problems = known.refused(batch)
        assert bad_edges(answer) == problems
        assert answer["created"] == (0 if problems else len(batch))
        refused += bool(problems)
    assert runs.count("shift_levels") >= 3
    assert 2 < refused < 13, "both have to come up"
    assert await sound(tools)


@pytest.mark.parametrize(("step", "moved", "level"), [(1, 0, 1), (1, 0, 2), (-1, 1, 0), (-1, 1, -1)])
async def test_no_item_moves_past_a_neighbour_that_moved_meanwhile(
    tools: Client, step: int, moved: int, level: int
) -> None:
    ids = await chain(tools, 2)
    shift = next(script for script in Script.registered() if script.name == "shift_levels")
    before = await levels_of(tools, ids)
    moves = msgspec.msgpack.encode([ids[moved].replace("-", ""), before[0] + level])
    assert await tools.store.run(shift, tools.project, step, moves) == (0, False)
    assert await levels_of(tools, ids) == before


async def test_concurrent_creates_and_deletes_never_close_a_cycle(clients: list[Client]) -> None:
    """The audit at the end finds levels that do not rise, which a cycle would cause."""
    chains = [await chain(clients[0], 170) for _ in range(4)]

    async def work(client: Client, chance: random.Random) -> int:
        created = 0
        for _ in range(15):
            first, second = chance.sample(range(4), 2)
            source, target = chains[first][chance.randrange(120, 170)], chains[second][chance.randrange(50)]
            created += (await link_pairs(client, (source, target)))["created"]
            if chance.random() < 0.5:
                at = chance.randrange(169)
                await client.unlink(fromItemId=chains[second][at], toItemId=chains[second][at + 1])
        return created

    created = await asyncio.gather(*(work(client, random.Random(n)) for n, client in enumerate(clients)))
    assert sum(created) > 5
