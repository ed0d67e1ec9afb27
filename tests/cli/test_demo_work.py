"""Where the demo's work comes from: graphs of distributions, files that describe them, and the plan."""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from coordinator.cli.demo import files, graph
from coordinator.cli.demo.agent_processes import Tally
from coordinator.cli.demo.board import Board
from coordinator.cli.demo.graph import Declared, Graph, Package, break_cycles, resolve
from coordinator.cli.demo.history import Event
from coordinator.cli.demo.watch import Watch
from coordinator.cli.demo.work import PRIORITIES, STEPS, Planned, plan
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.toolsets.items.rules.roles import ROLE_CODES

WORK, TERMINAL = ROLE_CODES["work"], ROLE_CODES["terminal"]


def declared(**requirements: list[str]) -> dict[str, Declared]:
    return {
        name: Declared(Package(name, "1"), [Requirement(one) for one in lines]) for name, lines in requirements.items()
    }


def test_the_installed_graph_is_what_distributions_declare() -> None:
    found = graph.installed()
    assert {"mcp", "redis", "pytest", "pluggy"} <= found.packages.keys()
    assert "pluggy" in found.requires["pytest"]
    assert "hiredis" in found.requires["redis"], "an extra that fleet-coordinator asks for"
    assert list(TopologicalSorter(found.requires).static_order())


def test_markers_and_extras_decide() -> None:
    found = resolve(
        declared(
            a=["b[fast]", "c; python_version < '3'", "d; extra == 'never'", "absent", "a[all]"],
            b=["e; extra == 'fast'", "f; extra == 'slow'"],
            c=[], d=[], e=["a[more]"], f=[],
        )
        | declared(g=["f ; extra == 'asked'"])
        | {"a-more": Declared(Package("a.more", "1"), [])},
        {"g": ["asked"]},
    )  # fmt: skip
    assert found == {
        "a": {"b"}, "b": {"e"}, "c": set(), "d": set(), "e": {"a"}, "f": set(), "g": {"f"}, "a-more": set()
    }  # fmt: skip


edges = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30)


@given(edges)
def test_breaking_cycles_leaves_none_and_takes_no_other_edge(pairs: set[tuple[int, int]]) -> None:
    requires = {str(n): tuple(sorted(str(b) for a, b in pairs if a == n and b != n)) for n in range(8)}
    kept, dropped = break_cycles(requires)
    TopologicalSorter(kept).prepare()
    assert break_cycles(kept) == (kept, [])
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


def test_cycles_are_broken_deterministically_and_reported() -> None:
    ring = declared(b=["c"], c=["a"], a=["b"])
    found = graph.assemble("ring", ring, resolve(ring), [])
    assert found.requires == {"a": ("b",), "b": ("c",), "c": ()}
    assert found.notes == ("c and a require each other: left out that c needs a first",)


LOCK = f"""
# made by a tool
--index-url https://example.org/simple
-r other.txt
alpha==1.0 \\
    --hash=sha256:00 \\
    --hash=sha256:11
    # via
    #   beta
    #   project (pyproject.toml)
beta==2.0 ; python_version >= '3'  # via gamma, delta
gamma[x]==3.0
never==1 ; python_version < '{sys.version_info.major}'
"""


def test_a_lock_file_with_notes_gives_the_requirements(tmp_path: Path) -> None:
    path = tmp_path / "requirements.lock"
    path.write_text(LOCK)
    found = files.read(path)
    assert found.requires == {"alpha": (), "beta": ("alpha",), "gamma": ("beta",)}
    assert [package.version for package in found.packages.values()] == ["1.0", "2.0", "3.0"]
    assert found.notes == ("left out what requirements.lock takes from other files and paths (1 lines)",)


def test_a_lock_file_without_notes_takes_what_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("pytest==9.0\nPluggy\nno-such-thing-here==1.0\n")
    found = files.read(path)
    assert found.requires == {"no-such-thing-here": (), "pluggy": (), "pytest": ("pluggy",)}
    assert found.packages["pytest"].version == "9.0"
    assert found.packages["pluggy"].version
    assert "1 of 3 distributions are not installed here" in found.notes[0]


def test_a_project_includes_its_requirements(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'My.Thing'\nversion = '7'\ndependencies = ['pytest', 'unheard-of']\n"
    )
    for path in (tmp_path, tmp_path / "pyproject.toml"):
        found = files.read(path)
        assert found.packages["my-thing"] == Package("My.Thing", "7")
        assert found.requires["my-thing"] == ("pytest", "unheard-of")
        assert "pluggy" in found.packages
        assert found.packages["unheard-of"].version == ""


def test_a_project_without_requirements_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("\ufeff[project]\nname = 'one'\ndependencies = []\n", encoding="utf-8")
    found = files.read(path)
    assert (found.requires, found.notes) == ({"one": ()}, ())
    path.write_text("[project]\nname = 'one'\ndynamic = ['dependencies']\n")
    assert "1 of 1 distributions are not installed here" in files.read(path).notes[0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.lock", b"one==1\ntwo three\n", "line 2: 'two three' is no requirement"),
        ("a.lock", b"# nothing\n", "names no distribution"),
        ("a.lock", b"\xff\xfe", "is not text"),
        ("a.toml", b"[project", "is not TOML"),
        ("a.toml", b"[tool]\n", "no [project] table with a name"),
        ("a.toml", b"[project]\nname='x'\ndependencies='y'\n", "project.dependencies must be a list"),
        ("a.toml", b"[project]\nname='x'\ndependencies=['/']\n", "project.dependencies: '/' is no requirement"),
        ("missing.lock", None, "No such file"),
    ],
)
def test_an_unusable_file_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandFailed, match=r"--from .*") as caught:
        files.read(path)
    assert words in str(caught.value)
    assert caught.value.code == Exit.USAGE


DIAMOND = Graph(
    "a diamond",
    {name: Package(name.upper(), "1") for name in "abcd"},
    {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()},
)


def test_the_plan_has_a_root_distributions_and_steps() -> None:
    items = plan(DIAMOND)
    by_key = {item.key: item for item in items}
    assert len(items) == len(by_key) == 1 + 4 + 4 * len(STEPS)
    assert by_key["t1"].blockers == ("t1/a", "t1/b", "t1/c", "t1/d")
    assert by_key["t1/a"].blockers == ("t1/a/test",)
    assert by_key["t1/a/build"].blockers == ("t1/a/fetch", "t1/b/build", "t1/c/build")
    assert by_key["t1/a/test"].blockers == ("t1/a/build",)
    assert not by_key["t1/a/fetch"].blockers
    # What most others wait for comes first.
    assert [by_key[f"t1/{name}"].priority for name in "dba"] == list(PRIORITIES)
    seen: set[str] = set()
    for item in items:
        assert item.parent is None or item.parent in seen, "parents come first"
        seen.add(item.key)
        assert item.step == (item.key.count("/") == 2)


def test_trees_are_independent() -> None:
    items = plan(DIAMOND, 3)
    assert len(items) == 3 * len(plan(DIAMOND))
    for item in items:
        tree = item.key.partition("/")[0]
        assert all(other.partition("/")[0] == tree for other in item.blockers)
    assert {item.title for item in items if item.parent is None} == {
        f"All of a diamond ({number} of 3)" for number in (1, 2, 3)
    }


def test_the_board_follows_the_events() -> None:
    board = Board(
        {
            "root": Planned("root", False, None, frozenset({"b"})),
            "a": Planned("a", True, "root", frozenset()),
            "b": Planned("b", True, "root", frozenset({"a"})),
        }
    )
    assert (board.ready, board.claimed, board.steps, board.steps_done) == (1, 0, 2, 0)
    board.apply([Event(1, "claim", "a")])
    assert (board.ready, board.claimed) == (0, 1)
    board.apply([Event(2, "expire", "a")])
    assert (board.ready, board.claimed, board.expiries) == (1, 0, 1)
    board.apply([Event(3, "claim", "a"), Event(4, "transition", "a", WORK), Event(5, "transition", "a", TERMINAL)])
    assert (board.ready, board.claimed, board.steps_done, board.all_done) == (1, 0, 1, False)
    board.apply([Event(9, "transition", "b", TERMINAL), Event(10, "transition", "root", TERMINAL)])
    assert board.all_done
    assert board.items_done == 3
    assert board.rate > 0
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


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with Watch(Board({}), Tally(), None, 1) as watch:
        watch.look()
        assert "0/0 done" in capsys.readouterr().out
