"""Removes a worktree if nothing can be lost by it, and says why not otherwise. Work is never removed by force."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.runner.workspaces.git import Git, GitFailed
from coordinator.runner.workspaces.ignored import ignored_files
from coordinator.runner.workspaces.repository import HOST, LOCK_REASON, NOBODY, SALVAGE, Repository, WorktreeEntry
from coordinator.runner.workspaces.staging import submodules, unsaved

IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
_MADE = re.compile(
    r"commit|cherry-pick|revert|am:|rebase \((?:pick|reword|edit|squash|fixup|continue)\)|.*Merge made by"
)
"""How lines about new commits begin in a log of HEAD."""
_NAMED = 3
"""How many files a reason names."""


class Tree:
    """One worktree of ours, whose owner (this process, or a dead one) has ended."""

    def __init__(self, repository: Repository, name: str, disposable: Sequence[str] = ()) -> None:
        self.repository, self.name, self.disposable = repository, name, disposable
        self.path = repository.root / name
        self.admin = repository.admin(name)
        self.configuration = repository.configuration_of(name)
        """What git uses in it."""
        self.git = repository.git_of(name)

    def entry(self) -> WorktreeEntry | None:
        """As git lists it."""
        return next((entry for entry in self.repository.entries() if entry.name == self.name), None)

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
        logs = self.admin / "logs"
        if any(path.is_symlink() for place in (self.admin, logs) for path in (place, *place.glob("*"))):
            return False  # git makes none, and would write through them
        there = self.git.says("rev-parse", "--absolute-git-dir")
        return there == str(self.admin) and self.repository.points(self.name, _text(self.path / ".git"))

    def why_unsaved(self) -> str:
        """Whether it has what is in no commit."""
        if reason := self._uncommitted():
            return reason
        if hidden := self._hidden():
            return f"{_count(len(hidden), 'file is', 'files are')} hidden from git status: {_some(hidden)}"
        if left := self.ignored():
            return f"{_count(len(left), 'ignored file is', 'ignored files are')} in no commit: {_some(left)}"
        return self._in_submodules(self.git)

    def _uncommitted(self) -> str:
        files = unsaved(self.git, self.dirty())
        return f"{_count(len(files), 'file is', 'files are')} not committed: {_some(files)}" if files else ""

    def why_unsettled(self) -> str:
        """Whether git is in the middle of something, or keeps more there than files and a commit."""
        for name, what in IN_PROGRESS.items():
            if (self.admin / name).exists():
                return f"{what} is in progress"
        if (self.admin / "refs").is_dir() and any(path.is_file() for path in (self.admin / "refs").rglob("*")):
            return "it has refs of its own"
        return ""

    def why_astray(self) -> str:
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

    def dirty(self) -> Mapping[str, str]:
        """What was different before the command began; see ``Origin``."""
        origin = self.repository.origin(self.name)
        return origin.dirty if origin else {}

    def _hidden(self) -> list[str]:
        """Files that git was told not to look at. (Those outside of a sparse checkout are not there.)"""
        marked = [line for line in self.git.listed("ls-files", "-v", "-z") if line[0].islower() or line[0] == "S"]
        return [line[2:] for line in marked if line[0] != "S" or os.path.lexists(self.path / line[2:])]

    def _in_submodules(self, git: Git) -> str:
        for name in submodules(git):
            place, what = git.directory / name, f"the submodule {name}"
            if not os.path.lexists(place / ".git"):  # it was not brought
                if place.is_dir() and any(place.iterdir()):
                    return f"{what} has files that are in no commit"
                continue
            with tempfile.TemporaryDirectory() as common:
                within = self.configuration.git_in_submodule(git.environment, _git_dir(place), place, Path(common))
                if within("status", "--porcelain", "--untracked-files=all", "--ignored", "--ignore-submodules=dirty"):
                    return f"{what} has files that are in no commit"
                if within("rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes", "--tags"):
                    return f"{what} has commits that its remote does not have"
                if reason := self._in_submodules(within):
                    return reason
        return ""

    # --- what was done in it

    def made_commits(self) -> set[str]:
        """Commits that were made in it, as far as its log of HEAD says so."""
        lines = [line.split("\t", 1) for line in _text(self.admin / "logs/HEAD").splitlines() if "\t" in line]
        return {words.split(" ")[1] for words, action in lines if _MADE.match(action)}

    def stashed(self) -> int:
        """How many stashes of its branch there are."""
        marks = (f"\tWIP on {self.name}: ", f"\tOn {self.name}: ")
        log = _text(self.repository.common / "logs/refs/stash")
        return sum(any(mark in line for mark in marks) for line in log.splitlines())

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
        # The newest first: older ones are often below them.
        ids = [
            word
            for line in reversed(_text(self.admin / "logs" / "HEAD").splitlines())
            for word in reversed(line.split(" ")[:2])
        ]
        ids += [sha for special in ("HEAD", "ORIG_HEAD") if not (sha := _head(self.admin, special)).startswith("ref:")]
        queries = "\n".join(sha for sha in dict.fromkeys(ids) if len(sha) >= 40)
        types = git("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=queries) if queries else ""
        for commit in (line.split(" ")[0] for line in types.splitlines() if line.endswith(" commit")):
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

    def remove(self) -> None:
        """Removes it, after a last look whether anything would be lost; if so, it stays, and is locked."""
        git = self.repository.git
        with self.repository.lock():
            entry = self.entry()
            if entry is not None and entry.locked is not None:
                git("worktree", "unlock", str(self.path))
            try:
                if self.path.is_dir() and (reason := self._uncommitted()):
                    raise GitFailed(reason)
                git("worktree", "remove", "--force", str(self.path))  # its own look runs git in submodules
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
    processes: list[tuple[int, str]] = []
    inside = f"{path}/"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{os.readlink(entry / 'cwd')}/".startswith(inside):
                processes.append((int(entry.name), (entry / "comm").read_text().strip()))
        except OSError:  # it has ended, or is another user's
            continue
    return processes


def _text(place: Path) -> str:
    """A file that commands can write; empty: there is none, or it is something else, which might never end."""
    try:
        return place.read_text("utf-8", "surrogateescape").strip() if stat.S_ISREG(place.lstat().st_mode) else ""
    except OSError:
        return ""


def _git_dir(place: Path) -> Path:
    if (place / ".git").is_dir():
        return (place / ".git").resolve()
    return (place / _text(place / ".git").removeprefix("gitdir:").strip()).resolve()


def _head(admin: Path, name: str = "HEAD") -> str:
    return _text(admin / name)


def _count(number: int, single: str, many: str) -> str:
    return f"{number} {single if number == 1 else many}"


def _some(files: list[str]) -> str:
    names = ", ".join("".join(char if char.isprintable() else "?" for char in name)[:80] for name in files[:_NAMED])
    return names + (", ..." if len(files) > _NAMED else "")
