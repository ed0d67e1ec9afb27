"""Removes a worktree if nothing can be lost by it, and says why not otherwise. Work is never removed by force."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from coordinator.runner.workspaces.git import GitFailed
from coordinator.runner.workspaces.ignored import ignored_files
from coordinator.runner.workspaces.repository import HOST, LOCK_REASON, NOBODY, SALVAGE, Entry, Repository

IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
_NAMED = 3
"""How many files a reason names."""


class Tree:
    """One worktree of ours, whose owner (this process, or a dead one) has ended."""

    def __init__(self, repository: Repository, name: str, disposable: Sequence[str] = ()) -> None:
        self.repository, self.name, self.disposable = repository, name, disposable
        self.path = repository.root / name
        self.admin = repository.admin(name)
        self.git = repository.git.at(self.path)

    def entry(self) -> Entry | None:
        """As git lists it."""
        return next((one for one in self.repository.entries() if one.name == self.name), None)

    # --- why it is kept: the first reason, or an empty text

    def why_foreign(self) -> str:
        """Whether it is not, or no longer, what was made."""
        entry = self.entry()
        if entry is None:
            return "git has no worktree here"
        if entry.locked is not None and not entry.locked.startswith(LOCK_REASON):
            return f"it is locked: {entry.locked or 'no reason given'}"
        if (origin := self.repository.origin(self.name)) and origin.host not in ("", HOST):
            return f"it was made on {origin.host}"
        if self.path.is_dir() and not self.is_intact():
            return "its .git is not the one that was made"
        if busy := processes_in(self.path):
            return f"process {busy[0][0]} ({busy[0][1]}) runs in it"
        return ""

    def is_intact(self) -> bool:
        """Whether git in its directory still is in this worktree, and not in a repository around or made in it."""
        try:
            words = (self.path / ".git").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return False
        return words.strip() == f"gitdir: {self.admin}" and self.git.says("rev-parse", "--absolute-git-dir") == str(
            self.admin
        )

    def why_unsaved(self) -> str:
        """Whether it has what is in no commit."""
        if listed := self.git("status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"):
            files = [one[3:] for one in listed.split("\0") if one[2:3] == " "]
            return f"{_count(len(files), 'file is', 'files are')} not committed: {_some(files)}"
        if hidden := self._hidden():
            return f"{_count(len(hidden), 'file is', 'files are')} hidden from git status: {_some(hidden)}"
        if left := self.ignored():
            return f"{_count(len(left), 'ignored file is', 'ignored files are')} in no commit: {_some(left)}"
        return self._in_submodules()

    def why_unsettled(self) -> str:
        """Whether git is in the middle of something, or keeps more there than files and a commit."""
        for name, what in IN_PROGRESS.items():
            if (self.admin / name).exists():
                return f"{what} is in progress"
        if (self.admin / "refs").is_dir() and any(one.is_file() for one in (self.admin / "refs").rglob("*")):
            return "it has refs of its own"
        return ""

    def why_astray(self) -> str:
        """Whether it is not on its branch."""
        head = _head(self.admin)
        if head != f"ref: refs/heads/{self.name}":
            where = head.removeprefix("ref: refs/heads/")
            return f"HEAD is {'on branch ' + where if head.startswith('ref: ') else 'detached at ' + head[:12]}"
        return ""

    def ignored(self) -> list[str]:
        """Ignored files that neither set-up nor a tool's cache explains."""
        origin = self.repository.origin(self.name)
        made = origin.ignored if origin else {}
        return [path for path, stamp in ignored_files(self.git, self.disposable) if made.get(path) != stamp]

    def _hidden(self) -> list[str]:
        """Files that git was told not to look at. (Those outside of a sparse checkout are not there.)"""
        marked = [one for one in self.git.listed("ls-files", "-v", "-z") if one[0].islower() or one[0] == "S"]
        return [one[2:] for one in marked if one[0] != "S" or os.path.lexists(self.path / one[2:])]

    def submodules(self) -> list[str]:
        """Those that were brought."""
        if not (self.path / ".gitmodules").exists() and not (self.admin / "modules").exists():
            return []
        lines = self.git("submodule", "status", "--recursive").splitlines()
        return [line[1:].split(" ")[1] for line in lines if line[0] != "-"]

    def _in_submodules(self) -> str:
        for name in self.submodules():
            git = self.git.at(self.path / name)
            if git("status", "--porcelain", "--untracked-files=all", "--ignored"):
                return f"the submodule {name} has files that are in no commit"
            if git("rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes", "--tags"):
                return f"the submodule {name} has commits that its remote does not have"
        return ""

    # --- what is done

    def return_to_branch(self) -> str:
        """Moves its branch to HEAD, if the command has left it for another place further on; returns HEAD's commit."""
        head, branch = self.git("rev-parse", "--verify", "HEAD"), f"refs/heads/{self.name}"
        if self.why_astray() and not self.why_unsettled():
            tip = self.git.says("rev-parse", "--verify", "--quiet", branch)
            if not tip or self.git("merge-base", tip, head, fails=(1,)) == tip:
                self.git("update-ref", "-m", "fleet run: where HEAD is", branch, head, *([tip] if tip else []))
                self.git("symbolic-ref", "-m", "fleet run", "HEAD", branch)
        return head

    def keep_loose_commits(self) -> None:
        """Puts a ref on commits that only its own log of HEAD has: amended ones, and those of a detached HEAD."""
        git = self.repository.git
        log = (
            (self.admin / "logs" / "HEAD").read_text(errors="replace")
            if (self.admin / "logs" / "HEAD").exists()
            else ""
        )
        # The newest first: older ones are often below them.
        ids = [word for line in reversed(log.splitlines()) for word in reversed(line.split(" ")[:2])]
        ids += [one for special in ("HEAD", "ORIG_HEAD") if not (one := _head(self.admin, special)).startswith("ref:")]
        asked = "\n".join(one for one in dict.fromkeys(ids) if len(one) >= 40)
        found = git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=asked) if asked else ""
        for commit in (line.split(" ")[0] for line in found.splitlines() if line.endswith(" commit")):
            kept = ("--branches", "--tags", "--remotes", f"--glob={SALVAGE}")
            if git("rev-list", "--max-count=1", commit, "--not", *kept):
                keep(self.repository, self.name, commit)

    def keep_index(self) -> None:
        """Keeps what is staged, if HEAD does not have it; the directory may be gone."""
        git, where = self.repository.git, f"--git-dir={self.admin}"
        head = git.says(where, "rev-parse", "--verify", "--quiet", "HEAD")
        if not head or not (self.admin / "index").exists():
            return
        if (tree := git(where, "write-tree")) == git("rev-parse", f"{head}^{{tree}}"):
            return
        keep(
            self.repository,
            self.name,
            git("commit-tree", tree, "-p", head, "-m", f"Staged in {self.name}", more=NOBODY),
        )

    def remove(self, *, checked_submodules: bool = False) -> None:
        """Removes it; git looks once more whether it is clean.

        Raises:
            GitFailed: git refused, so it is still there, and locked.
        """
        git, words = self.repository.git, ["--force"] if checked_submodules else []
        with self.repository.lock():
            entry = self.entry()
            if entry is not None and entry.locked is not None:
                git("worktree", "unlock", str(self.path))
            try:
                git("worktree", "remove", *words, str(self.path))
            except GitFailed:
                git.says("worktree", "lock", "--reason", f"{LOCK_REASON}: kept", str(self.path))
                raise

    def drop_branch(self, base: str, *, dry_run: bool = False) -> str:
        """Deletes its branch if its work is in the base; else says why not, as what follows its name."""
        repository = self.repository
        if not (commit := repository.git.says("rev-parse", "--verify", "--quiet", f"refs/heads/{self.name}")):
            return ""
        try:
            if repository.contains(base, commit) and (dry_run or repository.delete_branch(self.name, commit)):
                return ""
            ahead = int(repository.git("rev-list", "--count", commit, f"^{base}") or 0)
        except GitFailed as error:
            return f"is kept: {error}"
        return f"has {_count(ahead, 'commit', 'commits')} that {shown(base)} does not have"


def keep(repository: Repository, name: str, commit: str) -> str:
    """Puts a ref on a commit, so that it is never collected; returns its name."""
    ref = f"{SALVAGE}/{name}-{commit[:12]}"
    repository.git("update-ref", "-m", "fleet run", ref, commit)
    return ref


def unfinished(repository: Repository, name: str) -> bool:
    """Whether a worktree never was finished, so that no command has run in it."""
    return repository.admin(name).is_dir() and not (repository.admin(name) / "fleet.json").exists()


def shown(ref: str) -> str:
    """A ref, or the beginning of a commit's id."""
    return ref[:12] if len(ref) >= 40 else ref


def processes_in(path: Path) -> list[tuple[int, str]]:
    """Processes whose working directory is in a directory (on Linux)."""
    found: list[tuple[int, str]] = []
    inside = f"{path}/"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{os.readlink(entry / 'cwd')}/".startswith(inside):
                found.append((int(entry.name), (entry / "comm").read_text().strip()))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def _head(admin: Path, name: str = "HEAD") -> str:
    try:
        return (admin / name).read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _some(files: list[str]) -> str:
    names = ", ".join("".join(one if one.isprintable() else "?" for one in name)[:80] for name in files[:_NAMED])
    return names + (", ..." if len(files) > _NAMED else "")
