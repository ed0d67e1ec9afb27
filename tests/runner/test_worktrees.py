"""Worktrees for attempts, in real repositories: making, committing, ending."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from coordinator.runner.workspaces import Hooks
from tests.runner.repositories import Place, failure
from tests.support.wait import process_alive, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_an_attempt_has_a_branch_and_a_locked_worktree_of_its_own(place: Place) -> None:
    attempt = place.attempt()
    made = await place.open(attempt)
    assert made.branch == f"fleet-{attempt.item_id[:8]}-1"
    assert (made.path / "README").read_text() == "one\n"
    assert place.git("branch", "--show-current", at=made.path) == made.branch
    assert f"locked fleet run: item {attempt.item_id}, attempt 1" in place.git("worktree", "list", "--porcelain")
    assert place.git("config", "--get-regexp", "branch.*", fails=True) == ""
    assert await made.commit() is None
    assert await made.close(done=True) == "removed"
    assert not made.path.exists()
    assert place.branches() == []
    assert list(made.path.parent.glob(".owners/*")) == []


async def test_what_is_left_is_committed_by_the_agent_with_its_item(place: Place) -> None:
    attempt = place.attempt(title="#1 Ünïcode\n`rm -rf`")
    made = await place.open(attempt)
    (made.path / "new.txt").write_text("work\n")
    (made.path / "README").unlink()
    commit = await made.commit()
    assert commit == place.git("rev-parse", made.branch)
    said = place.git("show", "--no-patch", "--format=%an %s%n%(trailers:only)", made.branch)
    assert said.splitlines() == [
        "w-1 1 Ünïcode `rm -rf`",
        f"Fleet-Item: {attempt.item_id}",
        "Fleet-Attempt: 1",
    ]
    assert await made.close(done=True) == f"removed; branch {made.branch} has 1 commit that main does not have"
    assert place.branches() == [made.branch]
    assert place.git("show", f"{made.branch}:new.txt") == "work"


async def test_every_kind_of_change_is_committed(place: Place) -> None:
    for name in ("a/b", "c", "d/e", "f", "g"):
        (place.path / name).parent.mkdir(exist_ok=True)
        (place.path / name).write_text("x\n")
    (place.path / "l").symlink_to("g")
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=more")
    made = await place.open()
    for name in ("a", "d"):
        shutil.rmtree(made.path / name)
    for name in ("c", "f", "l"):
        (made.path / name).unlink()
    (made.path / "a").symlink_to(place.path / "a")  # where there is a file b
    (made.path / "c").mkdir()
    for name in ("c/n", "d", "l", "HEAD", "-x", 'o"d\nd', "ü"):
        (made.path / name).write_text("y\n")
    (made.path / "g").chmod(0o755)
    commit = str(await made.commit())
    said = place.git("diff", "--no-renames", "--name-status", "-z", "main", commit).split("\0")
    assert dict(zip(said[1::2], said[::2], strict=False)) == {
        "a/b": "D",
        "a": "A",
        "c": "D",
        "c/n": "A",
        "d/e": "D",
        "d": "A",
        "f": "D",
        "g": "M",
        "l": "T",
        "HEAD": "A",
        "-x": "A",
        'o"d\nd': "A",
        "ü": "A",
    }
    assert (await made.close(done=True)).startswith("removed")


async def test_commits_of_the_command_count_as_work(place: Place) -> None:
    made = await place.open()
    (made.path / "new.txt").write_text("work\n")
    place.git("add", "--all", at=made.path)
    place.git("commit", "--quiet", "--message=mine", at=made.path)
    assert await made.commit() == place.git("rev-parse", made.branch)


@pytest.mark.parametrize("where", ["--detach", "-b feature", "-B fleet", "--orphan other"])
async def test_commits_made_beside_the_branch_are_brought_to_it(place: Place, where: str) -> None:
    made = await place.open()
    place.git("checkout", "--quiet", *where.split(), at=made.path)
    (made.path / "new.txt").write_text("work\n")
    place.git("add", "--all", at=made.path)
    place.git("commit", "--quiet", "--message=mine", at=made.path)
    (made.path / "more.txt").write_text("more\n")
    assert await made.commit()
    became = await made.close(done=True)
    if "orphan" in where:  # it does not go on from the branch
        assert "HEAD is on branch other" in became
        return
    assert became == f"removed; branch {made.branch} has 2 commits that main does not have"
    assert place.git("show", f"{made.branch}:new.txt") == "work"


async def test_a_branch_that_was_deleted_comes_back_with_the_work(place: Place) -> None:
    made = await place.open()
    place.git("checkout", "--quiet", "--detach", at=made.path)
    place.git("branch", "-D", made.branch)
    (made.path / "new.txt").write_text("work\n")
    assert await made.commit()
    assert "removed" in await made.close(done=True)
    assert place.git("show", f"{made.branch}:new.txt") == "work"


async def test_the_next_attempt_goes_on_from_the_last_branch(place: Place) -> None:
    first = place.attempt()
    made = await place.open(first)
    (made.path / "half.txt").write_text("half\n")
    await made.commit()
    await made.close(done=False)
    for label in ("2", "10"):
        made = await place.open(place.attempt(first.item_id, label))
        assert (made.path / "half.txt").read_text() == "half\n"
        assert await made.commit() is None
        (made.path / f"{label}.txt").write_text("more\n")
        await made.commit()
        await made.close(done=False)
    made = await place.open(place.attempt(first.item_id, "11"))
    assert (made.path / "10.txt").exists()  # not that of 2
    await made.close(done=False)
    made = await place.open(place.attempt(first.item_id, "12"), fresh=True)
    assert not (made.path / "half.txt").exists()
    await made.close(done=False)


async def test_the_next_attempt_takes_what_a_dead_one_had_not_committed(place: Place) -> None:
    first = place.attempt()
    made = await place.open(first)
    (made.path / "half.txt").write_text("half\n")
    (made.path / "README").write_text("changed\n")
    made.owned.end(gone=False)
    again = await place.open(place.attempt(first.item_id, "2"))
    assert (again.path / "half.txt").read_text() == "half\n"
    assert (again.path / "README").read_text() == "changed\n"
    assert place.git("status", "--porcelain", at=made.path).splitlines() == ["M README", "?? half.txt"]  # untouched
    assert len(place.salvaged()) == 1
    # So it is no longer the only place of that work.
    found = place.collect()
    assert found[made.branch].removed
    assert not found[again.branch].removed
    assert {"half", "changed"} <= place.everything()


async def test_a_name_that_is_taken_gets_a_number(place: Place) -> None:
    attempt = place.attempt()
    names = [f"fleet-{attempt.item_id[:8]}-1{end}" for end in ("", "-2", "-3")]
    place.git("branch", names[0])
    made = await place.open(attempt)
    assert made.branch == names[1]
    (made.path.parent / names[2]).mkdir()
    more = await place.open(place.attempt(attempt.item_id))
    assert more.branch == f"fleet-{attempt.item_id[:8]}-1-4"
    assert place.git("rev-parse", names[0]) == place.git("rev-parse", "main")


async def test_sixteen_runners_on_one_repository(place: Place) -> None:
    """Without the lock some of them fail on git's own locks, and leave branches."""
    attempts = [place.attempt() for _ in range(16)]
    made = await asyncio.gather(*(place.open(one) for one in attempts))
    assert len({one.path for one in made}) == 16
    for number, one in enumerate(made):
        (one.path / f"{number}.txt").write_text(f"{number}\n")
    assert all(await asyncio.gather(*(one.commit() for one in made)))
    ends = await asyncio.gather(*(one.close(done=True) for one in made))
    assert [one for one in ends if not one.startswith("removed")] == []
    assert len(place.branches()) == 16
    assert all(place.git("show", f"{one.branch}:{number}.txt") == str(number) for number, one in enumerate(made))
    assert place.git("worktree", "list").count("\n") == 0


async def test_an_add_that_failed_leaves_nothing(place: Place) -> None:
    place.state.mkdir()
    (place.path / ".git" / "worktrees").write_text("in the way")
    error = await failure(place.open())
    assert error.broken
    assert place.branches() == []
    assert [one.name for one in (place.state / "worktrees").rglob("fleet-*")] == []


async def test_hooks_run_in_order_with_the_attempt_s_environment(place: Place) -> None:
    said = 'echo "$0 $FLEET_ITEM_ID $FLEET_BRANCH $FLEET_WORKSPACE" | sed "s|^/bin/sh|{}|" >> $OUT'
    hooks = Hooks(said.format("setup"), said.format("before"), said.format("after"), said.format("teardown"))
    attempt = place.attempt(environment={"FLEET_ITEM_ID": "i", "OUT": str(place.top / "said")})
    made = await place.open(attempt, hooks=hooks)
    await made.commit()
    assert await made.close(done=True) == "removed"
    expected = [f"{name} i {made.branch} {made.path}" for name in ("setup", "before", "after", "teardown")]
    assert (place.top / "said").read_text().splitlines() == expected


async def test_a_setup_that_fails_on_the_base_stops_the_runner_and_leaves_nothing(place: Place) -> None:
    error = await failure(place.open(hooks=Hooks(setup="echo no npm here >&2; exit 3")))
    assert (str(error), error.broken) == ("--setup ended with 3: no npm here", True)
    assert place.branches() == []


async def test_a_setup_that_fails_on_earlier_work_is_that_attempt_s_failure(place: Place) -> None:
    first = place.attempt()
    made = await place.open(first)
    (made.path / "broken.txt").write_text("x\n")
    await made.commit()
    await made.close(done=False)
    hooks = Hooks(setup="test ! -e broken.txt")
    error = await failure(place.open(place.attempt(first.item_id, "2"), hooks=hooks))
    assert not error.broken
    assert place.branches() == [made.branch, f"{made.branch[:-1]}2"]


async def test_before_is_fatal_and_after_and_teardown_are_not(place: Place) -> None:
    error = await failure(place.open(hooks=Hooks(before="exit 1")))
    assert (str(error), error.broken) == ("--before ended with 1", False)
    made = await place.open(hooks=Hooks(after="exit 1", teardown="exit 1"))
    assert await made.commit() is None
    assert await made.close(done=True) == "removed"


async def test_a_hook_that_hangs_is_ended_with_all_that_it_has_started(place: Place) -> None:
    began = time.monotonic()
    mark = place.top / "pid"
    hooks = Hooks(setup=f"setsid sh -c 'echo $$ > {mark}; exec tail -f /dev/null' & tail -f /dev/null", seconds=0.3)
    error = await failure(place.open(hooks=hooks))
    assert str(error) == "--setup took longer than 0 seconds"
    assert time.monotonic() - began < 30
    assert not process_alive(int(mark.read_text()))


async def test_after_runs_before_the_commit(place: Place) -> None:
    made = await place.open(hooks=Hooks(after="echo formatted > out.txt"))
    assert await made.commit()
    assert place.git("show", f"{made.branch}:out.txt") == "formatted"


async def test_output_of_hooks_is_kept_and_secrets_in_it_are_masked(place: Place) -> None:
    attempt = place.attempt(environment={"NPM_TOKEN": "abcdefgh12345678"})
    await place.open(attempt, hooks=Hooks(setup="echo with $NPM_TOKEN"))
    log = attempt.directory / "hooks.log"
    assert log.read_text() == "# --setup\nwith [masked]\n"
    assert log.stat().st_mode & 0o777 == 0o600


async def test_a_commit_that_a_hook_refuses_fails_and_the_work_is_kept(place: Place) -> None:
    hook = place.path / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho lint: bad style >&2\nexit 1\n")
    hook.chmod(0o755)
    first = place.attempt()
    made = await place.open(first)
    (made.path / "new.txt").write_text("work\n")
    error = await failure(made.commit())
    assert (str(error), error.broken) == ("git commit ended with 1: lint: bad style", False)
    assert await made.close(done=False) == f"kept at {made.path}: 1 file is not committed: new.txt"
    again = await place.open(place.attempt(first.item_id, "2"))
    assert (again.path / "new.txt").read_text() == "work\n"


async def test_a_merge_with_conflicts_is_not_committed(place: Place) -> None:
    made = await place.open()
    (place.path / "README").write_text("two\n")
    place.git("commit", "--quiet", "--all", "--message=two")
    (made.path / "README").write_text("three\n")
    place.git("commit", "--quiet", "--all", "--message=three", at=made.path)
    place.git("merge", "main", at=made.path, fails=True)
    assert "a merge is not resolved: README" in str(await failure(made.commit()))
    assert await made.close(done=False) == f"kept at {made.path}: a merge is in progress"


async def test_the_lock_of_an_index_whose_git_was_killed_is_in_nobody_s_way(place: Place) -> None:
    made = await place.open()
    (made.path / "new.txt").write_text("work\n")
    (place.repository().admin(made.branch) / "index.lock").write_text("")
    assert await made.commit()


async def test_a_worktree_that_the_command_deleted(place: Place) -> None:
    made = await place.open()
    (made.path / "new.txt").write_text("committed\n")
    place.git("add", "--all", at=made.path)
    place.git("commit", "--quiet", "--message=mine", at=made.path)
    (made.path / "staged.txt").write_text("staged\n")
    place.git("add", "--all", at=made.path)
    made.path.rename(place.top / "moved")
    assert "was deleted or replaced" in str(await failure(made.commit()))
    assert (await made.close(done=False)).startswith("removed; branch")
    assert {"committed", "staged"} <= place.everything()
    assert place.git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize("how", ["init", "nothing"])
async def test_a_worktree_whose_git_was_replaced_is_left_alone(place: Place, how: str) -> None:
    """Otherwise git would work in the repository around it, or in the command's own."""
    made = await place.open()
    (made.path / ".git").unlink()
    if how == "init":
        place.git("init", "--quiet", at=made.path)
    (made.path / "new.txt").write_text("work\n")
    assert "was deleted or replaced" in str(await failure(made.commit()))
    assert await made.close(done=True) == f"kept at {made.path}: its .git is not the one that was made"
    assert (made.path / "new.txt").exists()


@pytest.mark.parametrize("name", ["index", "COMMIT_EDITMSG", "logs/HEAD", "logs"])
async def test_git_writes_nowhere_else_by_a_link(place: Place, name: str) -> None:
    made = await place.open()
    target, link = place.top / "target", place.repository().admin(made.branch) / name
    shutil.copytree(link, target) if link.is_dir() else target.write_text("mine\n")
    before = sorted(target.rglob("*")) or target.read_text()
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.symlink_to(target)
    (made.path / "new.txt").write_text("work\n")
    assert "was deleted or replaced" in str(await failure(made.commit()))
    assert await made.close(done=True) == f"kept at {made.path}: its .git is not the one that was made"
    assert (sorted(target.rglob("*")) or target.read_text()) == before


async def test_settings_that_an_agent_made_run_no_program_of_it(place: Place) -> None:
    made = await place.open()
    place.git("config", "core.fsmonitor", f"touch {place.top / 'ran'}; false", at=made.path)
    (made.path / "new.txt").write_text("work\n")
    assert await made.commit()
    await made.close(done=True)
    assert not (place.top / "ran").exists()


async def test_little_room_is_no_fault_of_the_item(place: Place) -> None:
    error = await failure(place.open(min_free=1 << 60))
    assert (error.broken, error.later) == (False, True)
    assert "below --min-free" in str(error)
    assert place.branches() == []


@pytest.mark.parametrize(
    ("path", "base", "said"),
    [
        ("none", "", "is not a directory"),
        (".", "", "not a git repository"),
        ("app", "gone", "has no commit gone"),
        ("app", "--all", "has no commit --all"),
        ("empty", "", "has no commit ma"),
    ],
)
async def test_what_cannot_be_used_is_refused_before_the_first_item(
    place: Place, path: str, base: str, said: str
) -> None:
    place.git("init", "--quiet", str(place.top / "empty"))
    how = place.worktrees(base=base, repository=place.top / path)
    error = await failure(how.start())
    assert error.broken
    assert said in str(error)
    await place.worktrees().start()


async def test_a_bare_repository_and_a_worktree_of_one_will_do(place: Place) -> None:
    bare = place.top / "app.git"
    place.git("clone", "--quiet", "--bare", str(place.path), str(bare))
    place.git("worktree", "add", "--quiet", str(place.top / "linked"), "-b", "other", at=bare)
    for path in (bare, place.top / "linked"):
        how = place.worktrees(repository=path)
        await how.start()
        made = await how.open(place.attempt())
        (made.path / "new.txt").write_text("work\n")
        assert await made.commit()
        assert made.path.parent.name.startswith("app-")
        assert "removed" in await made.close(done=True)


async def test_changed_files_are_seen_but_not_those_of_caches(place: Place) -> None:
    made = await place.open()
    now = time.time() + 0.01
    assert not made.changed_since(now)
    for name, seen in (("node_modules/a/b.js", False), ("src/deep/new.txt", True)):
        file = made.path / name
        file.parent.mkdir(parents=True)
        file.write_text("x")
        if not seen:
            os.utime(made.path, (1, 1))
        assert made.changed_since(now - 0.02 if seen else now) is seen


async def test_a_cancelled_setup_leaves_no_worktree(place: Place) -> None:
    started = place.top / "started"
    opening = asyncio.ensure_future(place.open(hooks=Hooks(setup=f"touch {started}; tail -f /dev/null")))
    await wait_until(started.exists)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert place.branches() == []
    assert place.git("worktree", "list").count("\n") == 0
