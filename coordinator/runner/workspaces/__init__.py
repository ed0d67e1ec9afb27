"""Where commands work: git worktrees (``worktrees``), or directories that are there (``directories``).

What must never happen is that work is lost. So each attempt has a worktree and a branch of its own, what it leaves is
committed, and a worktree is removed only if ``removal`` finds nothing in it that no kept ref has: no changed, new,
hidden or ignored file, no commit beside the branch, no process. All else is kept, with the reason, or put on a ref
below ``refs/fleet/salvage`` (``salvage``). ``repository`` has the names and the lock, ``cleaning`` is ``fleet run gc``.
"""

from coordinator.runner.workspaces.cleaning import Finding, collect
from coordinator.runner.workspaces.directories import Directories
from coordinator.runner.workspaces.git import GitFailed
from coordinator.runner.workspaces.hooks import Hooks
from coordinator.runner.workspaces.repository import Repository
from coordinator.runner.workspaces.worktrees import MIN_FREE, Worktrees

__all__ = ["MIN_FREE", "Directories", "Finding", "GitFailed", "Hooks", "Repository", "Worktrees", "collect"]
