"""What differs before the command begins is not its work; work that it leaves elsewhere is said."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from coordinator.runner.workspaces import Hooks
from tests.runner.attempts import Bench
from tests.runner.repositories import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def commit(place: Place, **files: str) -> None:
    """Commits these and no others, whose content git may see in another way by now."""
    for name, text in files.items():
        (place.path / name.replace("_", ".")).write_bytes(text.encode())
        place.git("add", name.replace("_", "."))
    place.git("commit", "--quiet", "--message=more")


def line_endings(place: Place) -> Hooks:
    commit(place, t_txt="x\r\n", u_txt="y\r\n")
    commit(place, _gitattributes="*.txt text\n")
    return Hooks()


def automatic_line_endings(place: Place) -> Hooks:
    commit(place, t_txt="x\r\ny\n", u_txt="y\r\nz\n")
    place.git("config", "core.autocrlf", "input")
    return Hooks()


def a_filter(place: Place) -> Hooks:
    commit(place, t_txt="X\n", u_txt="Y\n", _gitattributes="*.txt filter=lower\n")
    place.git("config", "--global", "filter.lower.clean", "tr A-Z a-z")
    return Hooks()


def a_missing_filter(place: Place) -> Hooks:
    """What was smudged where it was committed."""
    commit(place, t_txt="$Id: 1$\n", u_txt="$Id: 2$\n")
    commit(place, _gitattributes="*.txt ident filter=none\n")
    return Hooks()


def set_up(place: Place) -> Hooks:
    commit(place, t_txt="x\n", u_txt="y\n", w_txt="w\n")
    return Hooks(setup="echo more >> t.txt; rm w.txt; echo new > made", before="echo more >> u.txt")


CASES: dict[str, Callable[[Place], Hooks]] = {
    "line endings": line_endings,
    "automatic line endings": automatic_line_endings,
    "a filter": a_filter,
    "a missing filter": a_missing_filter,
    "set-up": set_up,
}
NOTHING = {
    "nothing": "true",
    "a look": "git status >&2; git diff >&2",
    "again checked out": "cp t.txt ../t; rm t.txt; cp ../t t.txt; touch *",
    "staged": "git add --all",
    "refreshed": "touch *; git update-index --refresh >&2; git reset >&2",
}


OFTEN = {("line endings", command) for command in NOTHING} | {(case, "nothing") for case in CASES}


@pytest.mark.parametrize(
    ("case", "command"),
    [pytest.param(*pair, marks=() if pair in OFTEN else pytest.mark.chaos) for pair in product(CASES, NOTHING)],
)
async def test_it_is_no_change_and_not_committed(bench: Bench, case: str, command: str) -> None:
    place, hooks = bench.place, CASES[case](bench.place)
    report = await bench.run(("sh", "-c", NOTHING[command]), "", hooks=hooks, require_changes=True)
    assert (report.outcome.kind, report.outcome.reason) == ("failed", "it changed nothing")
    assert "commit" not in report.note
    assert bench.became == "removed"
    assert place.branches() == []
    assert place.salvaged() == []


@pytest.mark.parametrize("case", CASES)
async def test_work_beside_it_is_committed_alone(bench: Bench, case: str) -> None:
    place, hooks = bench.place, CASES[case](bench.place)
    report = await bench.run(("sh", "-c", "echo more >> u.txt; echo work > new"), "", hooks=hooks, require_changes=True)
    assert report.outcome.kind == "done"
    assert place.git("diff", "--name-only", "main", report.note["commit"]).split() == ["new", "u.txt"]
    assert bench.became.startswith("removed; branch")


async def test_it_is_no_change_where_git_sees_it_only_later(bench: Bench) -> None:
    """While the index is newer than the files, git does not read them."""
    line_endings(bench.place)
    hooks = Hooks(before='touch -d "1 hour" $(git rev-parse --git-path index); test -z "$(git status --porcelain)"')
    words = ("sh", "-c", "touch --date=yesterday *; git status --porcelain | grep txt")
    report = await bench.run(words, "", hooks=hooks, require_changes=True)
    assert report.outcome.reason == "it changed nothing"
    assert bench.became == "removed"


async def test_it_is_not_taken_over_from_an_attempt_that_died(bench: Bench) -> None:
    place, hooks = bench.place, line_endings(bench.place)
    first = place.attempt()
    made = await place.open(first, hooks=hooks)
    made.owned.end(gone=False)
    again = await place.open(place.attempt(first.item_id, "2"))
    assert place.git("rev-parse", "HEAD", at=again.path) == place.git("rev-parse", "main")
    assert place.salvaged() == []
    (again.path / "new").write_text("work\n")
    again.owned.end(gone=False)
    found = place.collect(salvage=True)
    assert found[made.branch].removed
    assert found[again.branch].removed
    (salvaged,) = place.salvaged()
    assert place.git("diff", "--name-only", "main", salvaged) == "new"


async def test_a_filter_that_fails_later_does_not_stand_in_the_way(bench: Bench) -> None:
    place = bench.place
    commit(place, t_txt="x\n", _gitattributes="*.txt filter=far\n")
    place.git("config", "filter.far.smudge", f"test ! -e {place.top}/away && cat")
    place.git("config", "filter.far.required", "true")
    place.git("config", "filter.far.clean", "cat")
    report = await bench.run(("sh", "-c", f"echo more >> t.txt; touch {place.top}/away"), "")
    assert place.git("show", f"{report.note['commit']}:t.txt") == "x\nmore"


async def test_what_a_command_normalizes_is_its_work(bench: Bench) -> None:
    commit(bench.place, t_txt="x\r\n")
    words = "echo '*.txt text' > .gitattributes; git add --renormalize ."
    report = await bench.run(("sh", "-c", words), "", require_changes=True)
    assert bench.place.git("show", f"{report.note['commit']}:t.txt") == "x"
    assert "t.txt" in bench.place.git("diff", "--name-only", "main", report.note["commit"])


@pytest.mark.parametrize(
    "how", ["git commit -q --allow-empty -m x", "git commit -q -a -m x", "git commit -qam x; git reset -q @~"]
)
async def test_a_commit_of_nothing_else_is_no_change(bench: Bench, how: str) -> None:
    hooks = set_up(bench.place)
    report = await bench.run(("sh", "-c", how), "", hooks=hooks, require_changes=True)
    assert report.outcome.reason == "it changed nothing"


async def test_ignored_files_are_changes(bench: Bench) -> None:
    report = await bench.run(("sh", "-c", "echo x > a.log"), "", require_changes=True)
    assert report.outcome.kind == "done"


@pytest.mark.parametrize("message", ["", "push --message=mine"])
async def test_stashed_work_is_no_change_and_is_said(bench: Bench, message: str) -> None:
    words = ("sh", "-c", f"echo work >> README; git stash {message} >&2")
    said = "1 of the command's stashes are left, which are on no branch: see git stash list"
    report = await bench.run(words, "", require_changes=True)
    assert report.outcome.reason == "it changed nothing"
    assert report.note["remarks"] == said
    assert said in bench.said
    report = await bench.run(words, "")
    assert (report.outcome.kind, report.note["remarks"]) == ("done", said)
    report = await bench.run(("sh", "-c", "echo work >> README; git stash >&2; git stash pop >&2"), "")
    assert "remarks" not in report.note


@pytest.mark.parametrize("back", ["", "; git checkout -q -"])
@pytest.mark.parametrize("how", ["commit", "merge"])
async def test_commits_on_the_base_are_said(bench: Bench, how: str, back: str) -> None:
    place = bench.place
    bare = place.top / "app.git"
    place.git("clone", "--quiet", "--bare", str(place.path), str(bare))
    make = "echo work > new; git add new; git commit -qm work"
    words = (
        f"git checkout -q main; {make}"
        if how == "commit"
        else f"{make}; git checkout -q main; git merge -q --no-ff -m x -"
    )
    report = await bench.run(("sh", "-c", words + back), "", repository=bare)
    assert report.note["remarks"] == "the command has committed on main itself"
    assert report.note["remarks"] in bench.said


async def test_work_of_others_on_the_base_is_not_the_command_s(bench: Bench) -> None:
    place = bench.place
    bare = place.top / "app.git"
    place.git("clone", "--quiet", "--bare", str(place.path), str(bare))
    commit(place, other="x\n")
    words = f"echo work > new; git fetch -q {place.path} main:main; git rebase -q main; git merge -q main"
    report = await bench.run(("sh", "-c", words), "", repository=bare)
    assert report.outcome.kind == "done"
    assert "remarks" not in report.note
