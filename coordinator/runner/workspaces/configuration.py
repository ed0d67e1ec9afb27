"""The configuration and hooks that the runner's git uses: copies outside of workspaces, made before a command began."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from coordinator.runner.workspaces.git import Git, GitFailed
from coordinator.runner.workspaces.programs import FILTER, copy_hooks, filter_command, hooks_notice

FOLDER = ".config"
"""Where the copies are, below the directory of a repository's worktrees: each is named by its digest."""
Entry = tuple[str, str | None]
"""A key and its value; None: it is there without one."""
_NAME = re.compile(r"[0-9a-f]{64}")
_OURS = re.compile(r"core\.(bare|worktree|hookspath)|extensions\.worktreeconfig|include(if\..*)?\.path", re.DOTALL)
"""Keys that are not copied: variables say where the worktree is, and what is included is copied in its place."""
_FORMAT = re.compile(r"core\.repositoryformatversion|extensions\.(objectformat|refstorage)")
_UNUSED_SECONDS = 86_400.0


class Configuration:
    """A copy; none is deleted that a process has, or that a worktree was made with.

    In its directory, ``system`` and ``global`` are files of settings, and ``common`` is what git takes for the
    common directory of the repository: all in it are links to the real one but ``config`` and ``hooks``.

    Args:
        path: its directory.
        notices: what the operator should know about it.
    """

    def __init__(self, path: Path, notices: Iterable[str] = ()) -> None:
        self.path, self.notices = path, tuple(notices)
        self._held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._held, fcntl.LOCK_SH)

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            os.close(self._held)

    @property
    def hooks(self) -> Path:
        """The directory with the hooks of commits."""
        return self.path / "common" / "hooks"

    def git(self, environment: Mapping[str, str], git_dir: Path, directory: Path, *, bare: bool = False) -> Git:
        """Git that uses it.

        Args:
            git_dir: of the worktree; only what belongs to this worktree alone is read there.
            directory: the top of the worktree, or where git starts if there is none.
            bare: there is none.
        """
        return Git(directory, environment, self._pins(git_dir, self.path / "common", None if bare else directory))

    def git_in_submodule(self, environment: Mapping[str, str], git_dir: Path, directory: Path, common: Path) -> Git:
        """Git in a submodule: of its own configuration only the format of its files counts.

        Args:
            common: an empty directory, which stays as long as the result is used.

        Raises:
            GitFailed: it is no repository, or its parts are in several places.
        """
        config = git_dir / "config"
        if (git_dir / "commondir").exists() or not config.is_file():
            raise GitFailed(f"{git_dir} is not the directory of a submodule")
        read = Git(self.path, environment)
        entries = _pairs(read.listed("config", "--file", str(config), "--no-includes", "--list", "-z"))
        _write(read, common / "config", [entry for entry in entries if _FORMAT.fullmatch(entry[0])])
        _link(git_dir, common)
        return Git(directory, environment, self._pins(git_dir, common, directory))

    def give(self, admin: Path) -> None:
        """Gives a new worktree the settings that the repository's own has for itself: the command's git reads them."""
        if (own := self.path / "worktree").exists():
            shutil.copyfile(own, admin / "config.worktree")

    def _pins(self, git_dir: Path, common: Path, work_tree: Path | None) -> dict[str, str]:
        return {
            "GIT_DIR": str(git_dir),
            "GIT_COMMON_DIR": str(common),
            "GIT_CONFIG_SYSTEM": str(self.path / "system"),
            "GIT_CONFIG_GLOBAL": str(self.path / "global"),
            **({"GIT_WORK_TREE": str(work_tree)} if work_tree else {}),
        }


def find(root: Path, name: str) -> Configuration | None:
    """The copy with this digest; None: there is none."""
    place = root / FOLDER / name
    return Configuration(place) if _NAME.fullmatch(name) and place.is_dir() else None


def newest(root: Path) -> Configuration | None:
    """The copy that a runner has made or used last; None: there is none."""
    copies = [path for path in (root / FOLDER).glob("*") if _NAME.fullmatch(path.name)]
    return Configuration(max(copies, key=_time)) if copies else None


def take(git: Git, common: Path, top: Path | None, root: Path) -> Configuration:
    """Copies what is there now: what the operator's own git uses in the repository.

    Args:
        git: in the repository; it uses what is there.
        common: the common directory of the repository.
        top: its main worktree; None: it is bare.
        root: the directory of the worktrees of attempts.

    Raises:
        GitFailed: it cannot be copied.
        OSError: it cannot be written.
    """
    for name in ("worktrees", "logs", "info"):  # git makes no directory where there is a link
        (common / name).mkdir(exist_ok=True)
    above = root / FOLDER
    above.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = Path(tempfile.mkdtemp(dir=above, prefix="new-"))
    try:
        notices, before = _fill(git, part, common, top, root), newest(root)
        place = above / _digest(part)
        if before is not None and before.path != place:
            notices.append(
                f"git's configuration or hooks in {common} are others than those of the last runner, and count from "
                "now on: if you have not changed them, a command has, so stop this runner and look at them"
            )
        try:
            part.rename(place)
        except OSError:
            os.utime(place)  # it is there already, perhaps since a moment ago
        return Configuration(place, notices)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def prune(root: Path, used: Collection[str]) -> None:
    """Deletes copies that no worktree (``used``) or process has, and that nobody has taken for a day."""
    for place in (root / FOLDER).glob("*"):
        if place.name in used or time.time() - _time(place) < _UNUSED_SECONDS:
            continue
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _fill(git: Git, part: Path, common: Path, top: Path | None, root: Path) -> list[str]:
    words = git.listed("config", "--list", "-z", "--show-scope", "--includes")
    scopes: dict[str, list[Entry]] = {scope: [] for scope in ("system", "global", "local", "worktree", "command")}
    for scope, entry in zip(words[::2], _pairs(words[1::2]), strict=True):
        scopes[scope if scope in scopes else "system"].append(entry)  # "unknown" is where macOS has more for the system
    del scopes["command"]
    every = [entry for entries in scopes.values() for entry in entries]
    (part / "common").mkdir()
    if any(key.startswith("filter.lfs.") for key, _ in every):
        (common / "lfs").mkdir(exist_ok=True)
    _link(common, part / "common")
    notices = []
    for scope, entries in scopes.items():
        copied: list[Entry] = []
        for key, value in entries:
            command = filter_command(git, value, top) if value and FILTER.fullmatch(key) else value
            if value and not command:
                notices.append(f"{key} is {value}, a program that is found in worktrees only: it is not run")
            elif not _OURS.fullmatch(key):
                copied.append((key, command))
        scopes[scope] = copied
    _write(git, part / "system", scopes["system"])
    _write(git, part / "global", scopes["global"])
    _write(git, part / "common" / "config", scopes["local"] + scopes["worktree"])
    if scopes["worktree"]:
        _write(git, part / "worktree", scopes["worktree"])
    place, said = _hooks_path(git, part, every, common, top)
    if not copy_hooks(place, common, root, part / "common" / "hooks") and said:
        notices.append(hooks_notice(said, top))
    return notices


def _hooks_path(git: Git, part: Path, every: list[Entry], common: Path, top: Path | None) -> tuple[Path, str]:
    """Where the hooks are, and the setting that says so."""
    own = [entry for entry in every if entry[0] == "core.hookspath"]
    if not own:
        return common / "hooks", ""
    if own[-1][1] in (None, "", os.devnull):  # there are to be none
        return Path(os.devnull), ""
    _write(git, part / "hooks-path", own)
    said = git("config", "--file", str(part / "hooks-path"), "--type=path", "--get", "core.hooksPath")
    return (top or Path(os.devnull)) / said, said  # for git, a relative one is in the workspace


def _pairs(texts: list[str]) -> list[Entry]:
    return [(key, value if between else None) for key, between, value in (text.partition("\n") for text in texts)]


def _write(git: Git, place: Path, entries: list[Entry]) -> None:
    lines = []
    for key, value in entries:
        section, _, rest = key.partition(".")
        within, dot, name = rest.rpartition(".")
        lines.append(f"[{section} {_quoted(within)}]\n" if dot else f"[{section}]\n")
        lines.append(f"\t{name}\n" if value is None else f"\t{name} = {_quoted(value)}\n")
    place.write_bytes("".join(lines).encode(errors="surrogateescape"))
    if _pairs(git.listed("config", "--file", str(place), "--no-includes", "--list", "-z")) != entries:
        raise GitFailed("its configuration cannot be copied")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _link(real: Path, common: Path) -> None:
    folders = {entry.name for entry in real.iterdir() if entry.is_dir()} - {"hooks"}
    for name in sorted(folders | {"HEAD", "packed-refs", "shallow"}):
        (common / name).symlink_to(real / name)


def _digest(top: Path) -> str:
    digest = hashlib.sha256()
    for above, folders, files in os.walk(top):
        folders.sort()
        for one in sorted(Path(above, name) for name in (*files, *(n for n in folders if Path(above, n).is_symlink()))):
            mode = one.lstat().st_mode
            body = os.fsencode(os.readlink(one)) if one.is_symlink() else one.read_bytes()
            digest.update(repr((str(one.relative_to(top)), mode, body)).encode())
    return digest.hexdigest()


def _time(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return time.time()
