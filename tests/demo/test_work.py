"""What the demo works on, and how it sees that done."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client.plans.plan import read
from coordinator.demo.board import Board, Event
from coordinator.demo.source import acyclic, from_file, installed, planned
from coordinator.demo.work import Planned
from coordinator.demo.work import planned as by_id
from coordinator.processes.errors import ProcessProblem
from coordinator.toolsets.items.rules.roles import ROLE_CODES

WORK, TERMINAL = ROLE_CODES["work"], ROLE_CODES["terminal"]
DIAMOND = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}


def test_the_installed_distributions_are_a_plan() -> None:
    found = read(installed().trees(1)[0])
    waits = {ref: {one for one, other in found.edges if other == ref} for ref in ("pytest/build", "mcp/test")}
    assert {"pytest/fetch", "pluggy/build"} <= waits["pytest/build"]
    assert waits["mcp/test"] == {"mcp/build"}


edges = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30)


@given(edges)
def test_breaking_cycles_leaves_none_and_takes_no_other_edge(pairs: set[tuple[int, int]]) -> None:
    requires = {str(n): sorted(str(b) for a, b in pairs if a == n and b != n) for n in range(8)}
    kept, dropped = acyclic(requires)
    TopologicalSorter(kept).prepare()
    assert acyclic(kept) == (kept, [])
    assert {(a, b) for a, some in requires.items() for b in some} == {
        (a, b) for a, some in kept.items() for b in some
    } | set(dropped)
    for one, other in dropped:
        # Each dropped edge does close a cycle with what is left.
        reached, todo = set(), [other]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += kept[name]
        assert one in reached


def test_a_cycle_loses_the_edge_that_closes_it() -> None:
    assert acyclic({"a": ["b"], "b": ["c"], "c": ["a"]}) == ({"a": ["b"], "b": ["c"], "c": []}, [("c", "a")])


def test_the_plan_has_a_root_distributions_and_steps(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# t\n- a\n")
    first, second = from_file(str(tmp_path / "plan.md")).trees(2)
    assert (first["title"], second["title"]) == ("t (1 of 2)", "t (2 of 2)")
    assert first["children"] == [{"title": "a", "maxAttempts": 0, "retryBackoffSeconds": 0, "children": []}]
    (tmp_path / "plan.md").write_text("# t\n- [x] a #x\n- [!] b (recurs: @daily)\n- c (after: a)\n- [ ] d\n")
    done = from_file(str(tmp_path / "plan.md"))
    assert [one.endswith(": a, b") for one in done.notes] == [True]
    (tree,) = done.trees(1)
    assert [{*one} - {"title", "maxAttempts", "retryBackoffSeconds", "children"} for one in tree["children"]] == [
        {"tags"}, set(), {"after"}, set(),
    ]  # fmt: skip
    found = read(planned({name: name.upper() for name in DIAMOND}, DIAMOND))
    whole = by_id(found, {node.ref: node.ref for node in found.root.all()})
    assert len(whole) == 1 + 4 + 4 * 3
    assert whole["a/build"] == Planned("A: build", True, "a", frozenset({"a/fetch", "b/build", "c/build"}))
    assert whole["a"] == Planned("A", False, "root", frozenset())
    assert whole["root"].blockers == whole["d/fetch"].blockers == frozenset()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.yaml", b"a: [", "is not YAML"),
        ("a.yaml", b"\xff\xfe", "is not text"),
        ("a.yaml", b"[]", "must be a mapping"),
        ("a.yaml", b"title: a\nchildren: 3", "a.yaml:2: plan.children: must be a list"),
        ("a.md", b"- a\n- [?] b", "a.md: line 2: [?] is no state"),
        ("missing.yaml", None, "No such file"),
    ],
)
def test_an_unusable_file_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProcessProblem, match=r"--from .*") as caught:
        from_file(str(path))
    assert words in str(caught.value)
    assert caught.value.kind == "usage"


def test_the_board_follows_the_events() -> None:
    board = Board(
        {
            "root": Planned("root", False, None, frozenset({"b"})),
            "a": Planned("a", True, "root", frozenset()),
            "b": Planned("b", True, "root", frozenset({"a"})),
        }
    )
    assert (board.claimed, board.steps, board.steps_done) == (0, 2, 0)
    board.apply([Event(1, "claim", "a")])
    assert board.claimed == 1
    board.apply([Event(2, "expire", "a")])
    assert (board.claimed, board.expiries) == (0, 1)
    board.apply([Event(3, "claim", "a"), Event(4, "transition", "a", WORK), Event(5, "transition", "a", TERMINAL)])
    assert (board.claimed, board.steps_done, board.items_done) == (0, 1, 1)
    board.apply([Event(9, "transition", "b", TERMINAL), Event(10, "transition", "root", TERMINAL)])
    assert board.items_done == 3
    assert board.seconds == 0.009
    assert board.repeated == []
    board.apply([Event(11, "transition", "b", TERMINAL)])
    assert (board.items_done, board.repeated) == (3, ["b"])


def test_a_claim_may_end_the_one_before_it() -> None:
    board = Board({name: Planned(name, True, None, frozenset()) for name in "ab"})
    board.apply([Event(1, "claim", "a"), Event(2, "claim", "b", left="a")])
    assert (board.claimed, board.claims, board.most_claimed, board.expiries) == (1, 2, 1, 0)
    board.apply([Event(3, "claim", "b")])
    assert (board.claimed, board.claims, board.expiries) == (1, 3, 1), "taken over: the claim before was over"
