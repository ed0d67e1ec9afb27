"""A repository whose worktrees the runner makes: names, the lock, and the list of what is there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from coordinator.runner.workspaces.configuration import FOLDER, Configuration, find, newest, prune, take
from coordinator.runner.workspaces.git import OLDEST, Git, GitFailed

BRANCH = re.compile(r"fleet-(?P<item>[0-9a-f]{8})-(?P<label>\d+(?:-\d+)*)")
"""Flat: a branch ``fleet`` and one below ``fleet/`` exclude each other."""
SALVAGE = "refs/fleet/salvage"
LOCK_REASON = "fleet run"
_TRIES = 3


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a worktree comes from; kept beside it. Once it is there, a command may have run in the worktree."""

    item_id: str
    base: str
    """The ref, or commit, whose work it goes into."""
    start: str
    """The commit that it began with."""
    host: str = ""
    ignored: dict[str, tuple[int, int]] = {}
    """Ignored files that set-up made: size, and when changed (ns)."""
    dirty: dict[str, str] = {}
    """What else differed from ``start`` before the command began: mode and object by path."""


@dataclass(frozen=True, slots=True)
class WorktreeEntry:
    """A worktree of ours, as git lists it."""

    path: Path
    name: str
    """Of its branch and directory."""
    locked: str | None
    """Why it is locked; None: it is not."""
    head: str
    """Its commit; empty: it has none."""


class Repository:
    """The repository at ``path``; its worktrees go below ``state``.

    Args:
        renew: git uses the configuration and hooks that are there now; else those that a runner has copied last.

    Raises:
        GitFailed: there is no repository, or git is missing or too old.
    """

    def __init__(self, path: Path, state: Path, environment: Mapping[str, str], *, renew: bool = False) -> None:
        git = Git(path, environment)
        version = Git(Path("/"), environment)("version")
        numbers = re.search(r"(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
            raise GitFailed(f"git {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is {version}")
        if not path.is_dir():
            raise GitFailed(f"{path} is not a directory")
        self.common = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir")).resolve()
        bare = git("rev-parse", "--is-inside-work-tree") == "false"
        top = self.common if bare else git("rev-parse", "--path-format=absolute", "--show-toplevel")
        self.path = Path(top)
        """Its main worktree, or itself if it is bare."""
        digest = hashlib.sha256(os.fsencode(self.common)).hexdigest()[:8]
        home = self.common.parent if self.common.name == ".git" else self.common
        name = re.sub(r"[^A-Za-z0-9._-]", "-", home.name.removesuffix(".git")) or "repository"
        self.root = state.resolve() / "worktrees" / f"{name}-{digest}"
        self._owners = self.root / ".owners"
        self._environment = environment
        try:
            kept = None if renew else newest(self.root)
            self.configuration = kept or take(git, self.common, None if bare else self.path, self.root)
        except OSError as error:
            raise GitFailed(f"{error.filename or self.root}: {error.strerror}") from None
        git_dir = Path(git("rev-parse", "--absolute-git-dir"))
        self.git = self.configuration.git(environment, git_dir, self.path, bare=bare)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time adds and removes worktrees: git's own locks make parallel calls fail."""
        with _locked(self.common / "fleet.lock"):
            yield

    def commit_of(self, ref: str) -> str:
        """The commit of a ref. Raises GitFailed: there is none."""
        if not (commit := self.git.says("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")):
            raise GitFailed(f"{self.path} has no commit {ref}")
        return commit

    def default_base(self) -> str:
        """The branch that is checked out in the repository, else its commit."""
        return self.git.says("symbolic-ref", "--quiet", "--short", "HEAD") or self.commit_of("HEAD")

    def branches(self, item8: str = "") -> dict[str, str]:
        """Our branches (of one item) with their commits, the oldest attempts first."""
        lines = self.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/fleet-*").splitlines()
        tips = dict(line.split(" ", 1) for line in lines)
        ours = {name: match for name in tips if (match := BRANCH.fullmatch(name)) and match["item"].startswith(item8)}
        return {name: tips[name] for name in sorted(ours, key=lambda name: _order(ours[name]))}

    def checked_out(self) -> set[str]:
        """Branches that some worktree is on, be it ours or not."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        return {line.removeprefix("branch refs/heads/") for line in lines if line.startswith("branch ")}

    def entries(self) -> list[WorktreeEntry]:
        entries: list[WorktreeEntry] = []
        for block in self.git("worktree", "list", "--porcelain", "-z").split("\0\0"):
            words = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
            path, head = Path(words.get("worktree", "/")), words.get("HEAD", "")
            if path.parent == self.root and BRANCH.fullmatch(path.name):
                entries.append(WorktreeEntry(path, path.name, words.get("locked"), head if head.strip("0") else ""))
        return entries

    def admin(self, name: str) -> Path:
        """Where git keeps what belongs to a worktree alone."""
        return self.common / "worktrees" / name

    def configuration_of(self, name: str) -> Configuration:
        """What a worktree was made with, before its command began."""
        try:
            digest = (self._owners / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            digest = ""
        return find(self.root, digest) or self.configuration

    def git_of(self, name: str) -> Git:
        return self.configuration_of(name).git(self._environment, self.admin(name), self.root / name)

    def prune(self) -> None:
        """Deletes copies of configurations that nothing needs."""
        prune(self.root, {self.configuration_of(name).path.name for name in self.owners()})

    def origin(self, name: str) -> Origin | None:
        """Where a worktree comes from; None: it never was finished."""
        place = self.admin(name) / "fleet.json"
        try:
            # Commands can write there, and a pipe would never end.
            return msgspec.json.decode(place.read_bytes(), type=Origin) if place.is_file() else None
        except (OSError, msgspec.MsgspecError):
            return None

    def set_origin(self, name: str, origin: Origin) -> None:
        place = self.admin(name) / "fleet.json"
        part = place.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(origin))
        part.replace(place)

    def own(self, name: str) -> Owned | None:
        """Takes a worktree for this process; None: another one has it, and is alive."""
        self._owners.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Owned.take(self._owners / name)

    def owners(self) -> set[str]:
        """The names of worktrees that somebody has or had."""
        return {path.name for path in self._owners.glob("*")}

    def free_name(self, wanted: str) -> str:
        """The name, or the next one of which no trace is left. The repository is locked."""
        taken = {*self.branches(), *(entry.name for entry in self.entries())}
        tries = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, 10_000))
        return next(
            name
            for name in tries
            if name not in taken and not (self.root / name).exists() and not self.admin(name).exists()
        )

    def add(self, wanted: str, start: str, note: str) -> tuple[str, Owned]:
        """Makes a worktree with a branch of the same name, owned and locked, without its files.

        Args:
            start: a commit. (From a ref, git would also set up tracking, in the settings that all share.)
        Raises:
            GitFailed: it cannot; nothing is left of it.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for attempt in range(1, _TRIES + 1):
            with self.lock():
                name = self.free_name(wanted)
                if (owned := self.own(name)) is None:
                    raise GitFailed(f"another process has {self.root / name}")
                reason = f"{LOCK_REASON}: {note}"
                how = ("--no-checkout", "--lock", "--reason", reason, "--no-track", "-b", name)
                (self.common / "worktrees").mkdir(exist_ok=True)  # git removes it with the last one in it
                try:
                    self.git("worktree", "add", *how, str(self.root / name), start)
                    self.point(name)
                    self.configuration.give(self.admin(name))
                    owned.note(self.configuration.path.name)
                except (GitFailed, OSError):
                    self._undo(name, start)  # a failed one leaves its branch
                    owned.end(gone=True)
                    if attempt == _TRIES:
                        raise
                else:
                    return name, owned
            time.sleep(0.2 * attempt)
        raise AssertionError

    def points(self, name: str, there: str) -> bool:
        """Whether the text of a worktree's ``.git`` is ours, or git's own from before that (``add`` may be killed)."""
        by_links = re.escape(f"gitdir: {self.root / FOLDER}/") + "[0-9a-f]{64}" + re.escape(f"/common/worktrees/{name}")
        return there == f"gitdir: {self.admin(name)}" or re.fullmatch(by_links, there) is not None

    def point(self, name: str) -> None:
        """Makes a worktree's ``.git`` ours: git's own goes by links of a configuration, which may be pruned earlier."""
        (self.root / name / ".git").write_text(f"gitdir: {self.admin(name)}\n")

    def _undo(self, name: str, start: str) -> None:
        """Removes what a failed ``add`` has left: nobody has worked in it."""
        path = self.root / name
        with contextlib.suppress(OSError):
            self.point(name)
        self.git.says("worktree", "unlock", str(path))
        self.git.says("worktree", "remove", "--force", str(path))
        with contextlib.suppress(OSError):
            path.rmdir()
        self.delete_branch(name, start)

    def discard(self, name: str, start: str) -> None:
        """Removes a worktree in which nothing has run yet."""
        with self.lock():
            self._undo(name, start)

    def delete_branch(self, name: str, commit: str) -> bool:
        """Deletes a branch if it still is at this commit and checked out nowhere."""
        if name in self.checked_out():
            return False
        try:
            self.git("update-ref", "-m", "fleet run", "-d", f"refs/heads/{name}", commit)
        except GitFailed:
            return False
        return True

    def contains(self, base: str, commit: str) -> bool:
        """Whether a commit's work is in the base: the commit itself, or patches equal to its own, also as one."""
        if self.git("rev-list", "--max-count=1", commit, f"^{base}") == "":
            return True
        if "+" not in {line[:1] for line in self.git("cherry", base, commit).splitlines()}:
            return self.git("rev-list", "--max-count=1", "--merges", commit, f"^{base}") == ""
        fork = self.git("merge-base", base, commit, fails=(1,))
        if not fork or self.git("rev-parse", f"{fork}^{{tree}}") == self.git("rev-parse", f"{commit}^{{tree}}"):
            return False
        squashed = self.git("commit-tree", f"{commit}^{{tree}}", "-p", fork, "-m", "squashed", more=NOBODY)
        return self.git("cherry", base, squashed).startswith("-")


NOBODY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "fleet run"), ("EMAIL", "fleet@fleet.invalid"))
}
"""An identity for commits that nobody has made."""
HOST = socket.gethostname()


class Owned:
    """A hold on a worktree that ends with the process."""

    def __init__(self, place: Path, descriptor: int) -> None:
        self._place, self._descriptor = place, descriptor

    @classmethod
    def take(cls, place: Path) -> Self | None:
        """Takes it; None: another process has it."""
        while True:
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return None
            if _same(descriptor, place):
                return cls(place, descriptor)
            os.close(descriptor)

    def note(self, text: str) -> None:
        """Writes a text into its file, instead of what is there."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def end(self, *, gone: bool) -> None:
        """Gives it up; ``gone``: there is no such worktree any more."""
        if self._descriptor < 0:
            return
        if gone:
            self._place.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _same(descriptor: int, place: Path) -> bool:
    """Whether a file is still the one at its place."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(place))
    except FileNotFoundError:
        return False


def _order(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(map(int, match["label"].split("-")))
