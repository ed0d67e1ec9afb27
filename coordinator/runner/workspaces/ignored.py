"""Ignored files: ``git worktree remove`` deletes them without a word, and no commit has them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.runner.workspaces.git import Git

CACHES = frozenset({"node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"})
"""Directories that hold nothing but what their tools make again."""
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
"""How a file CACHEDIR.TAG begins (bford.info/cachedir): its directory is a cache."""
Stamp = tuple[int, int]


def ignored_files(git: Git, disposable: Sequence[str] = ()) -> Iterator[tuple[str, Stamp]]:
    """Ignored files of a worktree that are in no cache, with size and when they were changed (ns).

    Args:
        disposable: further patterns of what its tools make again: of paths, and of the directories above.
    """
    for listed in git.listed("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"):
        if _is_disposable(git.directory, listed.rstrip("/"), disposable):
            continue
        if not listed.endswith("/"):
            yield from _stamped(git.directory, listed)
            continue
        for above, folders, files in os.walk(git.directory / listed):
            place = os.path.relpath(above, git.directory)
            folders[:] = [name for name in folders if not _is_disposable(git.directory, f"{place}/{name}", disposable)]
            links = [name for name in folders if os.path.islink(f"{above}/{name}")]
            for name in (*files, *links):
                path = f"{place}/{name}"
                if not any(fnmatch.fnmatchcase(path, pattern) for pattern in disposable):
                    yield from _stamped(git.directory, path)


def _stamped(top: Path, path: str) -> Iterator[tuple[str, Stamp]]:
    try:
        stat = os.lstat(top / path)
    except FileNotFoundError:  # it went meanwhile
        return
    yield path, (stat.st_size, stat.st_mtime_ns)


def _is_disposable(top: Path, path: str, patterns: Sequence[str]) -> bool:
    name = os.path.basename(path)
    if any(
        fnmatch.fnmatchcase(path, glob.rstrip("/")) or fnmatch.fnmatchcase(name, glob.rstrip("/")) for glob in patterns
    ):
        return True
    directory = top / path
    if not directory.is_dir() or directory.is_symlink():
        return path.endswith(".pyc")
    if name in CACHES:
        return True
    if (directory / "pyvenv.cfg").is_file():
        return True
    try:
        with open(directory / "CACHEDIR.TAG", "rb") as tag:
            return tag.read(len(_TAG)) == _TAG
    except OSError:
        return False
