"""Git repositories for tests, and workspaces in them."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coordinator.runner.protocols import JobAttempt, WorkspaceFailed
from coordinator.runner.workspaces import Repository, Worktrees, collect
from coordinator.runner.workspaces.cleaning import Finding
from coordinator.runner.workspaces.worktrees import Worktree
from tests.support.programs import needs


class Place:
    """A repository with one commit, and the state directory of a runner."""

    def __init__(self, top: Path, *, new: bool = True) -> None:
        needs("git")
        self.top, self.state, self.path = top, top / "state", top / "app"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(top),
            "GIT_AUTHOR_NAME": "w-1",
            "GIT_AUTHOR_EMAIL": "w-1@fleet.invalid",
            "GIT_COMMITTER_NAME": "w-1",
            "GIT_COMMITTER_EMAIL": "w-1@fleet.invalid",
        }
        if not new:
            return
        self.path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        (self.path / "README").write_text("one\n")
        (self.path / ".gitignore").write_text("*.log\n.env\nbuild/\nnode_modules/\n__pycache__/\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=one")

    def git(self, *words: str, at: Path | None = None, fails: bool = False) -> str:
        ended = subprocess.run(
            ["git", *words], cwd=at or self.path, env=self.environment, capture_output=True, text=True, check=False
        )
        assert fails or not ended.returncode, ended.stderr
        return ended.stdout.strip()

    def attempt(self, item_id: str = "", label: str = "1", **given: Any) -> JobAttempt:
        """An attempt of an item, which is a new one unless it is named."""
        run_id = uuid.uuid4().hex
        directory = self.top / "runs" / run_id
        directory.mkdir(parents=True)
        more: Mapping[str, str] = given.pop("environment", {})
        return JobAttempt(
            item_id=item_id or str(uuid.uuid4()),
            title=given.pop("title", "Write the docs"),
            number=int(label.partition("-")[0]),
            label=label,
            run_id=run_id,
            directory=directory,
            environment={**self.environment, **more},
        )

    def worktrees(self, **given: Any) -> Worktrees:
        default: dict[str, Any] = {"repository": self.path, "min_free": 0}
        return Worktrees(state=self.state, environment=self.environment, **(default | given))

    async def open(self, attempt: JobAttempt | None = None, **given: Any) -> Worktree:
        return await self.worktrees(**given).open(attempt or self.attempt())

    def repository(self) -> Repository:
        return Repository(self.path, self.state, self.environment)

    def collect(self, base: str = "main", **given: Any) -> dict[str, Finding]:
        return {one.name: one for one in collect(self.repository(), base, **given)}

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/fleet-*").split()

    def salvaged(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", "refs/fleet").split()

    def files(self) -> Iterator[Path]:
        """The files of worktrees; what a runner makes or deletes beside them meanwhile is not looked at."""
        for root, folders, files in os.walk(self.state / "worktrees"):
            folders[:] = [one for one in folders if one not in (".git", ".config", ".owners")]
            yield from (Path(root) / name for name in files if name != ".git")

    def everything(self) -> set[str]:
        """What is in a file of a worktree that is there, or of any commit that a ref reaches: lines."""
        found: set[str] = set()
        for one in self.files():
            found.update(one.read_text(errors="replace").splitlines())
        patches = self.git("log", "--all", "--glob=refs/fleet", "--patch", "--format=").splitlines()
        return found | {line[1:] for line in patches if line[:1] == "+" and line[:3] != "+++"}


async def failure(make: Any) -> WorkspaceFailed:
    """The error of an awaitable that has to fail."""
    try:
        await make
    except WorkspaceFailed as error:
        return error
    raise AssertionError("it did not fail")
