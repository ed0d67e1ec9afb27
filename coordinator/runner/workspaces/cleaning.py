"""Ends worktrees: each is removed if nothing can be lost, else kept with a reason; ``fleet run gc`` does it for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.runner.workspaces.git import GitFailed
from coordinator.runner.workspaces.removal import Tree, unfinished
from coordinator.runner.workspaces.repository import Repository
from coordinator.runner.workspaces.salvage import settle, was_taken


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a worktree, or of a branch without one."""

    name: str
    path: Path | None
    """Its directory; None: it is only a branch."""
    removed: bool
    reason: str
    """Why it is kept, or what of it is."""


def end(tree: Tree, base: str, *, salvage: bool = False, dry_run: bool = False) -> Finding:
    """Removes a worktree whose owner has ended if nothing can be lost, and its branch if its work is in the base.

    Args:
        base: the ref or commit that its work goes into.
        salvage: what is in no commit is put on a ref, and does not keep it.
        dry_run: only says what would happen.
    """
    try:
        return _end(tree, base, salvage, dry_run)
    except (GitFailed, OSError) as error:  # whatever went wrong: it is kept
        return Finding(tree.name, tree.path, False, str(error))


def _end(tree: Tree, base: str, salvage: bool, dry_run: bool) -> Finding:
    def kept(reason: str) -> Finding:
        return Finding(tree.name, tree.path, False, reason)

    if reason := tree.why_foreign():
        return kept(reason)
    if unfinished(tree.repository, tree.name):
        if not dry_run:
            tree.repository.discard(tree.name, tree.repository.git.says("rev-parse", f"refs/heads/{tree.name}"))
        return Finding(tree.name, tree.path, True, "it was never used")
    saved = ""
    if not tree.path.is_dir():
        if not dry_run:
            tree.keep_index()
    elif reason := tree.why_unsettled() or tree.why_astray() or tree.why_unsaved():
        if tree.why_unsettled() or not (salvage or was_taken(tree)):
            return kept(reason)
        if dry_run:
            return Finding(tree.name, tree.path, True, f"after salvage: {reason}")
        saved = settle(tree)
        if reason := tree.why_unsaved():
            return kept(reason)
    if dry_run:
        return Finding(tree.name, tree.path, True, "")
    tree.keep_loose_commits()
    tree.remove()
    left = tree.drop_branch(base)
    rest = (f"what was in no commit is at {saved}" if saved else "", f"branch {tree.name} {left}" if left else "")
    return Finding(tree.name, tree.path, True, "; ".join(filter(None, rest)))


def collect(
    repository: Repository, base: str, *, salvage: bool = False, dry_run: bool = False, disposable: Sequence[str] = ()
) -> Iterator[Finding]:
    """Ends every worktree of ours that no living runner has, and deletes branches whose work is in the base."""
    for entry in repository.entries():
        if (owned := repository.own(entry.name)) is None:
            yield Finding(entry.name, entry.path, False, "a runner works in it")
            continue
        finding = None
        try:
            origin = repository.origin(entry.name)
            tree = Tree(repository, entry.name, disposable)
            finding = end(tree, origin.base if origin else base, salvage=salvage, dry_run=dry_run)
        finally:
            owned.end(gone=finding is not None and finding.removed and not dry_run)
        yield finding
    yield from _leftovers(repository)
    yield from _branches(repository, base, dry_run)
    if not dry_run:
        repository.prune()


def _leftovers(repository: Repository) -> Iterator[Finding]:
    """Directories that are no worktrees any more: somebody pruned them, or the repository was moved."""
    known = {entry.name for entry in repository.entries()}
    for path in sorted(repository.root.glob("fleet-*")):
        if path.name not in known and (owned := repository.own(path.name)):
            try:
                path.rmdir()  # only if it is empty
                yield Finding(path.name, path, True, "it was empty")
            except OSError:
                yield Finding(path.name, path, False, "git has no worktree here; `git worktree repair` may help")
            owned.end(gone=True)
    for name in repository.owners() - known:
        if owned := repository.own(name):
            owned.end(gone=True)  # its runner died before it had made anything


def _branches(repository: Repository, base: str, dry_run: bool) -> Iterator[Finding]:
    """Branches without a worktree. Each is kept unless the base has its work."""
    taken = repository.checked_out() | {path.name for path in repository.root.glob("fleet-*")}
    for name in [branch for branch in repository.branches() if branch not in taken]:
        if (owned := repository.own(name)) is None:
            continue
        try:
            left = Tree(repository, name).drop_branch(base, dry_run=dry_run)
        finally:
            owned.end(gone=True)
        yield Finding(name, None, not left, left)
