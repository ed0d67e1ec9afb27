"""``fleet run gc``, and the flags of ``fleet run`` about workspaces."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run as fleet
from coordinator.cli.exits import CommandFailed
from coordinator.cli.runners.flags import options_of, workspaces_of
from coordinator.runner.protocols import WorkspaceFailed
from coordinator.runner.workspaces import Directories, Hooks, Worktrees
from tests.runner.repositories import Place, failure

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def flags(place: Place, **given: Any) -> dict[str, Any]:
    return {"state_dir": str(place.state), **given}


def workspaces(place: Place, **given: Any) -> Any:
    chosen = flags(place, **given)
    return workspaces_of(chosen, options_of(("true",), chosen))


async def test_each_worktree_and_branch_is_told_with_its_reason(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "gc", "--worktree", str(place.path), "--state-dir", str(place.state)]
    assert fleet(words) == 0
    assert capsys.readouterr().out == f"no worktree or branch of fleet run in {place.path}\n"
    clean, dirty, held, ahead = [await place.open() for _ in range(4)]
    for made in (dirty, ahead):
        (made.path / "new.txt").write_text("work\n")
    await ahead.commit()
    assert "removed" in await ahead.close(done=True)
    await dirty.close(done=False)
    clean.owned.end(gone=False)
    assert fleet([*words, "--dry-run"]) == 0
    said = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert str(clean.path) in said["would"]
    assert clean.path.exists()
    assert fleet([*words, "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert {name: one["removed"] for name, one in found.items()} == {
        clean.branch: True,
        dirty.branch: False,
        held.branch: False,
        ahead.branch: False,
    }
    assert found[held.branch]["reason"] == "a runner works in it"
    assert fleet([*words, "--salvage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(f"removed  {dirty.path}" in line and "refs/fleet/salvage/" in line for line in lines)
    assert lines[-1] == "1 removed, 2 kept"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--worktree", "/nowhere"), "/nowhere is not a directory"),
        (("--worktree", "/"), "not a git repository"),
        (("--base", "gone"), "has no commit gone"),
    ],
)
def test_what_cannot_be_collected(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(place.path)
    assert fleet(["run", "gc", *words]) == 2
    assert said in capsys.readouterr().err


async def test_git_and_what_it_starts_never_get_the_runner_s_token(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_TOKEN", "the-runners-own-token")
    monkeypatch.setenv("SOME_SECRET", "of-the-operator")
    monkeypatch.setenv("HOME", str(place.top))
    seen = place.top / "seen"
    hooks = place.path / ".git" / "hooks"
    for name in ("reference-transaction", "post-checkout", "pre-commit"):
        (hooks / name).write_text(f"#!/bin/sh\nenv >> {seen}\n")
        (hooks / name).chmod(0o755)
    made = await workspaces(place, worktree=str(place.path), min_free=0, setup=f"env >> {seen}").open(place.attempt())
    (made.path / "new.txt").write_text("work\n")
    await made.commit()
    await made.close(done=True)
    assert "PATH=" in seen.read_text()
    assert "the-runners-own-token" not in seen.read_text()
    assert "of-the-operator" not in seen.read_text()


def test_flags_make_the_workspaces(place: Place) -> None:
    made = workspaces(place, worktree="app", base="main", disposable=("dist/",), setup="true")
    assert isinstance(made, Worktrees)
    assert made.repository == Path("app").absolute()
    assert (made.min_free, made.disposable, made.hooks.setup) == (5 << 30, ("dist/",), "true")
    made = workspaces(place)
    assert isinstance(made, Directories)
    assert (made.where, made.min_free) == (".", 0)
    for given in ({"worktree": "a", "workspace": "b"}, {"base": "main"}, {"disposable": ("x",)}, {"salvage": True}):
        with pytest.raises(CommandFailed):
            workspaces(place, **given)


async def test_a_directory_is_used_as_it_is_and_never_removed(place: Place) -> None:
    made = await Directories(str(place.path)).open(place.attempt())
    (made.path / "new.txt").write_text("work\n")
    assert await made.commit() is None
    assert await made.close(done=True) == f"left at {place.path}"
    assert (place.path / "new.txt").exists()


async def test_each_item_can_have_a_directory(place: Place) -> None:
    spaces = Directories(
        f"{place.top}/spaces/{{item.id}}/x", Hooks(setup="echo made >> said", before="echo run >> said")
    )
    error = await failure(spaces.start())
    assert "spaces is not a directory" in str(error)
    (place.top / "spaces").mkdir()
    await spaces.start()
    attempt = place.attempt()
    for said in ("made\nrun\n", "made\nrun\nrun\n"):
        made = await spaces.open(attempt)
        assert made.path == place.top / "spaces" / attempt.item_id / "x"
        assert (made.path / "said").read_text() == said
    spaces = Directories(f"{place.top}/spaces/{{item.id}}", Hooks(setup="exit 1"))
    other = place.attempt()
    assert "the directory is kept as" in str(await failure(spaces.open(other)))
    assert not (place.top / "spaces" / other.item_id).exists()


@pytest.mark.parametrize(
    ("where", "hooks", "said"),
    [
        ("nowhere", Hooks(), "is not a directory"),
        ("README", Hooks(), "is not a directory"),
        ("", Hooks(setup="true"), "--setup needs --worktree, or {item.id} in the path"),
        ("{item.id}", Hooks(teardown="true"), "--teardown needs --worktree"),
    ],
)
async def test_directories_that_cannot_be_used(place: Place, where: str, hooks: Hooks, said: str) -> None:
    error = await failure(Directories(f"{place.path}/{where}", hooks).start())
    assert isinstance(error, WorkspaceFailed)
    assert error.broken
    assert said in str(error)
    assert os.listdir(place.path).count("{item.id}") == 0
