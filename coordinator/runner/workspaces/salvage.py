"""Keeps uncommitted work as a commit on a ref, without touching the worktree's files or its index."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from coordinator.runner.workspaces.git import GitFailed
from coordinator.runner.workspaces.removal import Tree, keep
from coordinator.runner.workspaces.repository import NOBODY, SALVAGE
from coordinator.runner.workspaces.staging import add, others, stage

MOST_BYTES = 1 << 30
"""Of files that one salvage takes."""


def snapshot(tree: Tree, *, ignored: bool = False) -> str | None:
    """The files as they are, as a commit on top of HEAD that a ref keeps; None: HEAD has them all.

    Args:
        ignored: also take ignored files that are in no cache.

    Raises:
        GitFailed: it cannot: there is a repository within, or too much, or a merge is not resolved.
    """
    git = tree.git
    head = git("rev-parse", "--verify", "HEAD")
    written = _written(tree, ignored=ignored)
    if written == git("rev-parse", "HEAD^{tree}"):
        return None
    commit = git("commit-tree", written, "-p", head, "-m", f"What was not committed in {tree.name}", more=NOBODY)
    keep(tree.repository, tree.name, commit)
    return commit


def was_taken(tree: Tree) -> bool:
    """Whether an earlier snapshot has all of its files as they are: the next attempt began with it."""
    if tree.why_unsettled() or tree.why_astray() or tree.ignored():
        return False
    pattern = f"{SALVAGE}/{tree.name}-*"
    taken = tree.git("for-each-ref", "--format=%(tree)", pattern).split()
    try:
        return bool(taken) and _written(tree, ignored=False) in taken
    except GitFailed:
        return False


def _written(tree: Tree, *, ignored: bool) -> str:
    """The files as they are, as a tree."""
    git = tree.git
    files = others(git)
    if within := next((file for file in files if file.endswith("/")), None):
        raise GitFailed(f"{within} is a git repository of its own")
    extra = tree.ignored() if ignored else []
    if within := next((file for file in extra if "/.git/" in f"/{file}"), None):
        raise GitFailed(f"{within.partition('/.git/')[0] or 'it'} has a git repository of its own")
    if sum(_size(tree.path / file) for file in (*files, *extra)) > MOST_BYTES:
        raise GitFailed(f"there is more than {MOST_BYTES >> 30} GiB of files that are not committed")
    with tempfile.TemporaryDirectory(dir=tree.admin, prefix="salvage-") as place:
        index = {"GIT_INDEX_FILE": f"{place}/index"}
        git("read-tree", "HEAD", more=index)
        stage(git, tree.dirty(), index)
        add(git, extra, index)
        return git("write-tree", more=index)


def settle(tree: Tree) -> str:
    """Keeps everything in a worktree by refs, and makes its HEAD and index agree, so that git finds it clean.

    Returns:
        The ref that has what was not committed, or that HEAD was at.

    Raises:
        GitFailed: it cannot be kept; nothing was changed.
    """
    head = tree.git("rev-parse", "--verify", "HEAD")
    commit = snapshot(tree, ignored=True) or head
    tree.keep_index()  # what is staged may differ from both
    ref = keep(tree.repository, tree.name, commit)
    tree.git("update-ref", "--no-deref", "-m", "fleet run: salvaged", "HEAD", commit)
    (tree.admin / "index").unlink(missing_ok=True)  # it may hide files
    tree.git("reset", "--mixed", "--quiet")
    return ref


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
