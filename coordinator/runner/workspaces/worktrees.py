"""``--worktree``: a git worktree with a branch of its own for each attempt."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from coordinator.runner.commands import HEAD_BYTES, program_at
from coordinator.runner.protocols import JobAttempt, Program, WorkspaceFailed
from coordinator.runner.workspaces import hooks as commands
from coordinator.runner.workspaces.cleaning import end
from coordinator.runner.workspaces.git import SETTINGS, GitFailed, disk_is_full
from coordinator.runner.workspaces.hooks import NONE, Hooks
from coordinator.runner.workspaces.ignored import ignored_files
from coordinator.runner.workspaces.own_files import changed_since
from coordinator.runner.workspaces.removal import Tree
from coordinator.runner.workspaces.repository import HOST, Origin, Owned, Repository
from coordinator.runner.workspaces.salvage import snapshot
from coordinator.runner.workspaces.staging import between, differences, stage, unmerged

GIB = 1 << 30
MIN_FREE = 5 * GIB
_LARGEST_SCRIPT = 1 << 20
_POINTER = b"version https://git-lfs"
"""In place of a file that git-lfs has."""


@dataclass(slots=True)
class Worktrees:
    """Makes a worktree for each attempt; see ``protocols.Workspaces``.

    An attempt goes on from the last one's branch, and from what that one had not committed, if it died.

    Args:
        repository: its path, or that of any worktree of it.
        state: the runner's directory; worktrees go to ``worktrees/<repository>/<branch>`` in it.
        base: where first attempts begin, and whose work branches are compared with; empty: the branch that is checked
            out in the repository.
        fresh: every attempt begins at the base.
        salvage: what is left uncommitted is put on a ref, so that the worktree can be removed.
        min_free: bytes that must be free on the disks of worktrees and repository.
        disposable: patterns of ignored files that are not worth keeping.
    """

    repository: Path
    state: Path
    environment: Mapping[str, str]
    base: str = ""
    fresh: bool = False
    hooks: Hooks = NONE
    salvage: bool = False
    min_free: int = MIN_FREE
    disposable: Sequence[str] = ()
    _repository: Repository | None = field(default=None, init=False)

    async def start(self) -> Sequence[str]:
        try:
            return await asyncio.to_thread(self._check)
        except (GitFailed, OSError) as error:
            raise WorkspaceFailed(f"--worktree {self.repository}: {error}", broken=True) from None

    def _check(self) -> Sequence[str]:
        repository = self._open()
        repository.commit_of(self.base)
        repository.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(repository.common, os.W_OK):
            raise GitFailed(f"{repository.common} cannot be written to")
        self._check_room(repository)
        return repository.configuration.notices

    def program(self, path: str, *, made: bool) -> Program | None:
        """What is at a path; of a relative one, what the base has."""
        if os.path.isabs(path):
            return program_at(Path(path))
        place = os.path.normpath(path)
        if made or place.startswith(".."):
            return None
        git = self._open().git
        try:
            mode, _, name = git("ls-tree", "--full-tree", self.base, "--", place).partition("\t")[0].split()
        except (GitFailed, ValueError):
            return Program("missing", why=f"does not exist in {self.base}")
        if mode == "040000":
            return Program("directory")
        if mode != "100755":
            return Program("not executable") if mode == "100644" else None
        head = b"\0"
        if int(git("cat-file", "-s", name)) <= _LARGEST_SCRIPT:
            head = git("cat-file", "blob", name).encode(errors="surrogateescape")[:HEAD_BYTES]
        return None if head.startswith(_POINTER) else Program("program", head)

    def _open(self) -> Repository:
        if self._repository is None:
            repository = Repository(self.repository, self.state, self.environment, renew=True)
            # Of the first moment: somebody may check out another branch while the runner works.
            self.base = self.base or repository.default_base()
            self._repository = repository
        return self._repository

    def _check_room(self, repository: Repository) -> None:
        for place in (repository.root, repository.common):
            if (free := shutil.disk_usage(place).free) < self.min_free:
                raise WorkspaceFailed(
                    f"{free / GIB:.1f} GiB are free at {place}, below --min-free {self.min_free / GIB:g};"
                    " `fleet run gc` shows which worktrees are kept, and why",
                    later=True,
                )

    async def open(self, attempt: JobAttempt) -> Worktree:
        try:
            tree, owned, origin = await asyncio.to_thread(self._make, attempt)
        except (GitFailed, OSError) as error:
            full = disk_is_full(str(error))
            raise WorkspaceFailed(f"no worktree: {error}", broken=not full, later=full) from None
        made = Worktree(self, attempt, tree, owned, origin)
        try:
            await made.prepare()
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(made.close(done=False)))
            raise
        return made

    def _make(self, attempt: JobAttempt) -> tuple[Tree, Owned, Origin]:
        repository = self._open()
        repository.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_room(repository)
        base = self.base
        start = self._start(repository, base, attempt)
        note = f"item {attempt.item_id}, attempt {attempt.label}, on {HOST}"
        name, owned = repository.add(f"fleet-{attempt.name}", start, note)
        try:
            tree = Tree(repository, name, self.disposable)
            tree.git("reset", "--hard", "--quiet")
            origin = Origin(attempt.item_id, base, start, HOST)
            repository.set_origin(name, origin)
        except BaseException:
            repository.discard(name, start)
            owned.end(gone=True)
            raise
        return tree, owned, origin

    def _start(self, repository: Repository, base: str, attempt: JobAttempt) -> str:
        """The commit that an attempt begins with."""
        begin = repository.commit_of(base)
        earlier = {} if self.fresh else repository.branches(attempt.name.partition("-")[0])
        if not earlier:
            return begin
        name, commit = list(earlier.items())[-1]
        tree = Tree(repository, name, self.disposable)
        if tree.entry() is not None and tree.is_intact():
            # Its runner died, or could not commit: what it has left is worth as much as what it has committed.
            with contextlib.suppress(GitFailed):
                commit = tree.git("rev-parse", "--verify", "HEAD")
                return snapshot(tree) or commit
        return begin if repository.contains(base, commit) else commit


class Worktree:
    def __init__(self, how: Worktrees, attempt: JobAttempt, tree: Tree, owned: Owned, origin: Origin) -> None:
        self._how, self._attempt, self._tree, self._origin = how, attempt, tree, origin
        self.owned = owned
        """The hold on it, which ends with the process."""
        self._base_was = ""
        self.remarks: Sequence[str] = ()
        """What is not as one expects of the command's work; known after ``commit``."""
        self._more = {"FLEET_REPOSITORY": str(tree.repository.path), "FLEET_BRANCH": tree.name}

    @property
    def path(self) -> Path:
        return self._tree.path

    @property
    def branch(self) -> str:
        return self._tree.name

    async def prepare(self) -> None:
        """Runs the hooks that come before the command.

        Raises:
            WorkspaceFailed: one failed. If it was set-up on nothing but the base, other items would fare alike.
        """
        self._base_was = await asyncio.to_thread(self._base)
        hooks, first = self._how.hooks, self._origin.start == self._base_was
        if problem := await hooks.run("setup", self._attempt, self.path, self._more):
            raise WorkspaceFailed(problem, broken=first)
        if hooks.setup:
            made = await asyncio.to_thread(lambda: dict(ignored_files(self._tree.git, self._how.disposable)))
            self._origin = msgspec.structs.replace(self._origin, ignored=made)
            await asyncio.to_thread(self._tree.repository.set_origin, self._tree.name, self._origin)
        await hooks.must("before", self._attempt, self.path, self._more)
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        """Notes what is not the command's work."""
        with contextlib.suppress(GitFailed):  # a commit will say the same
            if dirty := differences(self._tree.git):
                self._origin = msgspec.structs.replace(self._origin, dirty=dirty)
                self._tree.repository.set_origin(self._tree.name, self._origin)

    def _base(self) -> str:
        return self._tree.repository.git.says("rev-parse", "--verify", "--quiet", f"{self._origin.base}^{{commit}}")

    def changed_since(self, moment: float) -> bool:
        """Whether a file was changed after a moment; those of caches and of git itself do not count."""
        return changed_since(self.path, moment)

    async def commit(self) -> str | None:
        """Commits what the command has left, with the hooks of the repository; the runner's ``after`` runs before."""
        if not self._tree.is_intact():
            raise WorkspaceFailed(f"the worktree {self.path} was deleted or replaced; branch {self.branch} is kept")
        await self._how.hooks.run("after", self._attempt, self.path, self._more)
        try:
            if await asyncio.to_thread(self._stage):
                await self._commit()
            head = await asyncio.to_thread(self._tree.return_to_branch)
            self.remarks = await asyncio.to_thread(self._elsewhere)
        except (GitFailed, OSError) as error:
            full = disk_is_full(str(error))
            broken = isinstance(error, OSError) and not full
            raise WorkspaceFailed(str(error), broken=broken, later=full) from None
        return head if head != self._origin.start else None

    def _stage(self) -> bool:
        git = self._tree.git
        with contextlib.suppress(FileNotFoundError):
            (self._tree.admin / "index.lock").unlink()  # of a git that was killed: nothing runs here now
        if conflicts := unmerged(git):
            raise GitFailed(f"a merge is not resolved: {', '.join(conflicts[:3])}")
        return bool(stage(git, self._origin.dirty))

    def changed(self, moment: float) -> bool:
        """Whether the command has changed a file that is in the work, or an ignored one; called after ``commit``."""
        dirty = self._origin.dirty
        try:
            work = between(self._tree.git, self._origin.start, "HEAD")
            return any(dirty.get(change.path) != change.after for change in work) or bool(self._tree.ignored())
        except (GitFailed, OSError):
            return False

    def _elsewhere(self) -> list[str]:
        """Where work of the command is besides its branch."""
        remarks, base = [], self._base()
        if base != self._base_was and base in self._tree.made_commits():
            remarks.append(f"the command has committed on {self._origin.base} itself")
        if stashed := self._tree.stashed():
            remarks.append(f"{stashed} of the command's stashes are left, which are on no branch: see git stash list")
        return remarks

    async def _commit(self) -> None:
        attempt = self._attempt
        message = attempt.directory / "commit-message"
        title = " ".join(attempt.title.split())[:72].lstrip("#").strip() or "Work on an item"
        trailers = f"Fleet-Item: {attempt.item_id}\nFleet-Attempt: {attempt.label}\n"
        message.write_text(f"{title}\n\n{trailers}", encoding="utf-8", errors="replace")
        git = self._tree.git
        settings = (*SETTINGS, "-c", f"core.hooksPath={self._tree.configuration.hooks}")
        words = ("git", *settings, "commit", "--quiet", "--no-gpg-sign", "--cleanup=whitespace", "--file", str(message))
        own = {k: v for k, v in attempt.environment.items() if k.startswith("GIT_")}
        environment = git.environment | own | git.pins
        problem = await commands.run(words, "git commit", attempt, self.path, environment, self._how.hooks.seconds)
        if problem:
            raise GitFailed(problem)

    async def close(self, *, done: bool) -> str:
        """Ends the worktree: it is removed if nothing can be lost. Its branch stays until the base has its work."""
        tree, gone = self._tree, False
        try:
            may_go = bool(self._how.hooks.teardown) and await asyncio.to_thread(self._may_go)
            if may_go:
                await self._how.hooks.run("teardown", self._attempt, self.path, self._more)
            removal = await asyncio.to_thread(end, tree, self._origin.base, salvage=self._how.salvage)
            gone = removal.removed
        except (GitFailed, OSError) as error:
            return f"kept at {self.path}: {error}"
        finally:
            self.owned.end(gone=gone)
        rest = f"; {removal.reason}" if removal.reason else ""
        return f"removed{rest}" if gone else f"kept at {self.path}: {removal.reason}"

    def _may_go(self) -> bool:
        tree = self._tree
        if not tree.is_intact() or tree.why_unsettled():
            return False
        return self._how.salvage or not (tree.why_astray() or tree.why_unsaved())
