"""Hooks and filter drivers that commits run: found outside of workspaces, where no command has written them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

from coordinator.runner.workspaces.git import Git

FILTER = re.compile(r"filter\..*\.(clean|smudge|process)", re.DOTALL)
"""Keys whose values are commands of filter drivers."""
_WORD = re.compile(r"[^\s'\"`;|&<>(){}$=]+")


def filter_command(git: Git, command: str, top: Path | None) -> str:
    """The command of a filter driver; git starts it in the workspace, so paths in the repository become absolute.

    Args:
        top: its main worktree; None: it is bare.

    Returns:
        Empty: it names a program of the repository that is not in the main worktree.
    """
    parts, end = [], 0
    for number, match in enumerate(_WORD.finditer(command)):
        word = match[0]
        if os.path.isabs(word) or word[0] in "-%~" or not ("/" in word or (number and "." in word)):
            continue
        outside = None if top is None else top / word
        if outside is not None and outside.is_file() and shlex.quote(str(outside)) == str(outside):
            parts += [command[end : match.start()], str(outside)]
            end = match.end()
        elif (not number and "/" in word) or git.says("rev-parse", "--verify", "--quiet", f"HEAD:{word}"):
            return ""
    return "".join((*parts, command[end:]))


def copy_hooks(place: Path, common: Path, root: Path, to: Path) -> bool:
    """Makes ``to`` the directory of the hooks that are in ``place``.

    What is in the common directory is copied, because commands can write there; all else is linked to.

    Args:
        place: where the repository has its hooks.
        common: the common directory of the repository.
        root: the directory of workspaces, from which nothing is taken.

    Returns:
        Whether there is such a directory outside of workspaces.
    """
    real = place.resolve()
    if not real.is_dir() or real.is_relative_to(root):
        to.mkdir()
        return False
    if not real.is_relative_to(common):
        to.symlink_to(real)
        return True
    to.mkdir()
    _copy(real, common, root, to)
    return True


def _copy(source: Path, common: Path, root: Path, to: Path) -> None:
    for path in sorted(source.iterdir()):
        real, new = path.resolve(), to / path.name
        if path.name.endswith(".sample") or real.is_relative_to(root):
            continue
        if path.is_symlink() and not real.is_relative_to(common):
            new.symlink_to(real)
        elif real.is_file():
            shutil.copy2(real, new)
        elif real.is_dir() and not source.is_relative_to(real):
            new.mkdir()
            _copy(real, common, root, new)


def hooks_notice(path: str, top: Path | None) -> str:
    """What is said where the hooks of the setting core.hooksPath are not found."""
    where = "outside of worktrees" if top is None or os.path.isabs(path) else f"in {top}"
    return f"commits of the runner run no hooks: core.hooksPath is {path}, and there is no such directory {where}"
