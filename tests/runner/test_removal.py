"""Nothing that is not on a kept ref is ever deleted: the ways in which runners of this kind have lost work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.runner.workspaces import Hooks
from coordinator.runner.workspaces.worktrees import Worktree
from tests.runner.repositories import Place
from tests.support.fleets import ROOT

pytestmark = pytest.mark.anyio
Spoil = Callable[[Place, Path], object]
DIES = """
import os, sys
from pathlib import Path
from coordinator.runner.workspaces import Repository
from tests.runner.repositories import Place
Repository.point = lambda *_: os._exit(9)
repository = Place(Path(sys.argv[1]), new=False).repository()
repository.add("fleet-12345678-1", repository.commit_of("main"), "")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(name: str) -> Spoil:
    def spoil(_: Place, path: Path) -> None:
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("precious\n")

    return spoil


def git(*commands: str) -> Spoil:
    def spoil(place: Place, path: Path) -> None:
        for command in commands:
            place.git(*command.split(" "), at=path)

    return spoil


def both(*steps: Spoil) -> Spoil:
    return lambda place, path: [step(place, path) for step in steps]


COMMITTED = both(write("new.txt"), git("add --all", "commit --quiet --message=work"))
KEPT: dict[str, tuple[Spoil, str]] = {
    "modified": (write("README"), "1 file is not committed: README"),
    "staged": (both(write("new.txt"), git("add --all")), "1 file is not committed: new.txt"),
    "untracked": (write("deep/er/new.txt"), "1 file is not committed: deep/er/new.txt"),
    "untracked, and hidden by a setting": (
        both(write("new.txt"), git("config status.showUntrackedFiles no")),
        "1 file is not committed: new.txt",
    ),
    "many": (
        both(*(write(f"{n}.txt") for n in range(5))),
        "5 files are not committed: 0.txt, 1.txt, 2.txt, ...",
    ),
    "ignored": (write(".env"), "1 ignored file is in no commit: .env"),
    "in an ignored directory": (write("build/app.js"), "1 ignored file is in no commit: build/app.js"),
    "assumed to be unchanged": (
        both(git("update-index --assume-unchanged README"), write("README")),
        "1 file is hidden from git status: README",
    ),
    "out of a sparse checkout": (
        both(git("update-index --skip-worktree README"), write("README")),
        "1 file is hidden from git status: README",
    ),
    "ignored by a rule of its own": (
        both(lambda place, _: (place.path / ".git/info/exclude").write_text("*.txt\n"), write("new.txt")),
        "1 ignored file is in no commit: new.txt",
    ),
    "detached": (both(git("checkout --quiet --detach"), COMMITTED), "HEAD is detached at "),
    "another branch": (both(git("checkout --quiet -b feature"), COMMITTED), "HEAD is on branch feature"),
    "a repository within": (
        both(git("init --quiet sub"), write("sub/new.txt")),
        "1 file is not committed: sub/",
    ),
    "an ignored repository within": (
        both(git("init --quiet build/sub"), write("build/sub/new.txt")),
        "ignored files are in no commit: build/sub/",
    ),
    "a lock of somebody": (
        git("worktree unlock .", "worktree lock --reason look-at-it ."),
        "it is locked: look-at-it",
    ),
    "a rebase": (
        both(COMMITTED, lambda place, path: place.git("rebase", "--exec=false", "HEAD~1", at=path, fails=True)),
        "a rebase is in progress",
    ),
    "a bisection": (git("bisect start"), "a bisection is in progress"),
    "refs of its own": (git("update-ref refs/worktree/x HEAD"), "it has refs of its own"),
}


@pytest.mark.parametrize("case", KEPT)
async def test_what_is_kept_and_why(place: Place, case: str) -> None:
    spoil, reason = KEPT[case]
    made = await place.open()
    spoil(place, made.path)
    before = place.everything()
    became = await made.close(done=True)
    assert became.startswith(f"kept at {made.path}: ")
    assert reason in became
    assert place.everything() == before
    again = place.collect()[made.branch]  # and the same by `fleet run gc`
    assert not again.removed
    assert reason in again.reason
    assert made.branch in place.branches()


NOT_SALVAGED: tuple[str, ...] = (
    "a repository within",
    "an ignored repository within",
    "a lock of somebody",
    "a rebase",
    "a bisection",
)
NOT_SALVAGED += ("refs of its own",)
SALVAGED = [case for case in KEPT if case not in NOT_SALVAGED]


@pytest.mark.parametrize("case", SALVAGED)
async def test_what_salvage_puts_on_a_ref(place: Place, case: str) -> None:
    made = await place.open()
    KEPT[case][0](place, made.path)
    assert place.collect(salvage=True, dry_run=True)[made.branch].reason == "a runner works in it"
    before = place.everything()
    assert "precious" in before
    await made.close(done=True)
    preview = place.collect(salvage=True, dry_run=True)[made.branch]
    assert preview.removed
    assert made.path.exists()
    found = place.collect(salvage=True)[made.branch]
    assert found.removed, found.reason
    assert not made.path.exists()
    assert before <= place.everything()
    assert not place.git("status", "--porcelain")  # the repository's own checkout is untouched


@pytest.mark.parametrize("case", NOT_SALVAGED)
async def test_what_even_salvage_leaves_alone(place: Place, case: str) -> None:
    made = await place.open()
    KEPT[case][0](place, made.path)
    await made.close(done=True)
    before = place.everything()
    found = place.collect(salvage=True)[made.branch]
    assert not found.removed
    assert made.path.exists()
    assert before <= place.everything()


async def test_commits_that_only_the_worktree_knows_get_a_ref(place: Place) -> None:
    """Amended ones, and those made on a detached HEAD that was left again: ``worktree remove`` forgets them."""
    made = await place.open()
    COMMITTED(place, made.path)
    write("new.txt")(place, made.path)
    (made.path / "new.txt").write_text("better\n")
    place.git("commit", "--quiet", "--all", "--amend", "--message=better", at=made.path)
    place.git("checkout", "--quiet", "--detach", at=made.path)
    (made.path / "aside.txt").write_text("aside\n")
    place.git("add", "--all", at=made.path)
    place.git("commit", "--quiet", "--message=aside", at=made.path)
    place.git("checkout", "--quiet", made.branch, at=made.path)
    became = await made.close(done=True)
    assert became.startswith("removed")
    assert {"precious", "better", "aside"} <= place.everything()
    assert len(place.salvaged()) == 2


async def test_what_is_staged_and_nowhere_else_is_salvaged(place: Place) -> None:
    made = await place.open()
    write("new.txt")(place, made.path)
    place.git("add", "--all", at=made.path)
    (made.path / "new.txt").unlink()
    assert "1 file is not committed: new.txt" in await made.close(done=True)
    assert place.collect(salvage=True)[made.branch].removed
    assert "precious" in place.everything()


async def test_stashed_work_survives(place: Place) -> None:
    made = await place.open()
    write("README")(place, made.path)
    place.git("stash", at=made.path)
    assert (await made.close(done=True)) == "removed"
    assert "precious" in place.git("stash", "show", "--patch")


@pytest.mark.parametrize("cache", ["node_modules/a/i.js", "__pycache__/a.pyc", "build/tagged/x", "venv/lib/x"])
async def test_caches_and_what_set_up_made_keep_nothing(place: Place, cache: str) -> None:
    (place.path / ".gitignore").write_text("*\n!README\n!.gitignore\n")
    place.git("commit", "--quiet", "--all", "--message=ignore")
    made = await place.open(hooks=Hooks(setup="echo secret > .env; mkdir deps; echo x > deps/a; echo y > deps/b"))
    write(cache)(place, made.path)
    if "tagged" in cache:
        (made.path / "build/tagged/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# ...\n")
    (made.path / "venv").mkdir(exist_ok=True)
    (made.path / "venv" / "pyvenv.cfg").write_text("home = /usr\n")
    assert await made.close(done=True) == "removed"


async def test_what_set_up_made_keeps_it_once_it_was_changed(place: Place) -> None:
    made = await place.open(hooks=Hooks(setup="echo secret > .env; mkdir build; echo x > build/a"))
    (made.path / ".env").write_text("another secret\n")
    assert await made.close(done=True) == f"kept at {made.path}: 1 ignored file is in no commit: .env"


async def test_patterns_say_what_else_is_not_worth_keeping(place: Place) -> None:
    made = await place.open(disposable=("build/", "*.log"))
    write("build/deep/app.js")(place, made.path)
    write("out.log")(place, made.path)
    assert await made.close(done=True) == "removed"


async def test_a_process_that_still_runs_in_it_keeps_it(place: Place) -> None:
    made = await place.open()
    with subprocess.Popen(["tail", "-f", "/dev/null"], cwd=made.path) as process:  # noqa: ASYNC220
        try:
            became = await made.close(done=True)
        finally:
            process.kill()
    assert became == f"kept at {made.path}: process {process.pid} (tail) runs in it"
    assert place.collect()[made.branch].removed


async def test_set_up_can_bring_submodules_which_are_checked_by_themselves(place: Place) -> None:
    library = Place(place.top / "other")
    place.git("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(library.path), "lib")
    place.git("commit", "--quiet", "--message=lib")
    hooks = Hooks(setup="git -c protocol.file.allow=always submodule update --init --quiet")

    async def spoilt(*steps: Spoil) -> str:
        made: Worktree = await place.open(hooks=hooks)
        assert (made.path / "lib" / "README").exists()
        for step in steps:
            step(place, made.path / "lib")
        return await made.close(done=True)

    assert await spoilt() == "removed"
    assert "the submodule lib has files that are in no commit" in await spoilt(write("new.txt"))
    assert "1 file is not committed: lib" in await spoilt(COMMITTED)  # the commit that is recorded is another
    assert "the submodule lib has commits that its remote does not have" in await spoilt(
        git("checkout --quiet -b mine"), COMMITTED, git("checkout --quiet --detach HEAD~1")
    )
    assert "the submodule lib has files that are in no commit" in await spoilt(write("x.log"))


async def test_a_branch_goes_when_the_base_has_its_work(place: Place) -> None:
    merged, picked, squashed, ahead = [await place.open() for _ in range(4)]
    for number, made in enumerate((merged, picked, squashed, ahead)):
        for part in "ab":
            (made.path / f"{number}{part}.txt").write_text(f"{part}\n")
            place.git("add", "--all", at=made.path)
            place.git("commit", "--quiet", f"--message={number}{part}", at=made.path)
        await made.close(done=True)
    place.git("merge", "--quiet", "--no-ff", "--no-edit", merged.branch)
    place.git("cherry-pick", f"main..{picked.branch}")
    place.git("merge", "--quiet", "--squash", squashed.branch)
    place.git("commit", "--quiet", "--message=squashed")
    assert sorted(place.branches()) == sorted(one.branch for one in (merged, picked, squashed, ahead))
    found = place.collect(dry_run=True)
    assert [found[one.branch].removed for one in (merged, picked, squashed, ahead)] == [True, True, True, False]
    found = place.collect()
    assert found[ahead.branch].reason == "has 2 commits that main does not have"
    assert place.branches() == [ahead.branch]


async def test_work_that_was_undone_on_its_branch_is_kept(place: Place) -> None:
    made = await place.open()
    COMMITTED(place, made.path)
    place.git("revert", "--no-edit", "HEAD", at=made.path)
    await made.close(done=True)
    assert not place.collect()[made.branch].removed


async def test_branches_and_worktrees_of_others_are_not_ours(place: Place) -> None:
    place.git("branch", "fleet-mine")
    place.git("branch", "fleet-12345678-1x")
    place.git("worktree", "add", "--quiet", "-b", "fleet-12345678-7", str(place.top / "theirs"))
    assert place.collect() == {}
    assert (place.top / "theirs" / "README").exists()
    assert len(place.branches()) == 3


async def test_what_git_no_longer_knows_is_left(place: Place) -> None:
    made = await place.open()
    write("new.txt")(place, made.path)
    made.owned.end(gone=False)
    place.git("worktree", "unlock", str(made.path))
    admin = place.repository().admin(made.branch)
    admin.rename(place.top / "pruned")
    (made.path.parent / "fleet-12345678-1").mkdir()
    found = place.collect()
    assert found["fleet-12345678-1"].removed
    assert "git worktree repair" in found[made.branch].reason
    assert (made.path / "new.txt").exists()


@pytest.mark.parametrize("pruned", [False, True])
def test_a_worktree_goes_whose_runner_died_while_it_was_made(place: Place, pruned: bool) -> None:
    """Git has made it, by way of links in the runner's copy of a configuration, which may be gone by now."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", DIES, str(place.top)], env=environment, check=False)
    assert done.returncode == 9
    (left,) = (place.state / "worktrees").glob("*/fleet-*")
    assert ".config" in (left / ".git").read_text()
    if pruned:
        shutil.rmtree(left.parent / ".config")
    assert place.collect()[left.name].reason == "it was never used"
    assert not left.exists()
    assert place.branches() == []
    assert place.git("worktree", "list").count("\n") == 0


async def test_there_is_a_last_look_when_it_is_removed(place: Place) -> None:
    """What is written between our look and the removal keeps it, and it is locked again."""
    made = await place.open()
    wrapper = place.top / "bin" / "git"
    wrapper.parent.mkdir()
    late = f'case "$*" in *"worktree unlock"*) echo late > {made.path}/late.txt;; esac'
    wrapper.write_text(f'#!/bin/sh\n{late}\nPATH="{os.environ["PATH"]}" exec git "$@"\n')
    wrapper.chmod(0o755)
    place.environment["PATH"] = f"{wrapper.parent}:{place.environment['PATH']}"
    found = place.collect()
    assert found[made.branch].reason == "a runner works in it"
    made.owned.end(gone=False)
    found = place.collect()
    assert not found[made.branch].removed
    assert found[made.branch].reason == "1 file is not committed: late.txt"
    assert (made.path / "late.txt").exists()
    assert "locked fleet run: kept" in place.git("worktree", "list", "--porcelain")
