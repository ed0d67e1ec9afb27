"""Where commands work: git worktrees (``worktrees``), or directories that are there (``directories``).

What must never happen is that work is lost. So each attempt has a worktree and a branch of its own, what it leaves is
committed, and a worktree is removed only if ``removal`` finds nothing in it that no kept ref has: no changed, new,
hidden or ignored file, no commit beside the branch, no process. All else is kept, with the reason, or put on a ref
below ``refs/fleet/salvage`` (``salvage``). ``repository`` has the names and the lock, ``cleaning`` is ``fleet run gc``.

What must never happen either is that the runner's git runs a program for a command, outside of its sandbox. Git has no
switch that makes it ignore the configuration of a repository. But it reads that in the *common directory*, which
``GIT_COMMON_DIR`` names, and of a worktree's own directory it reads ``config.worktree`` only if the configuration says
so. So the runner makes a common directory of its own outside of workspaces (``configuration``), before any command
runs: links to the real objects, refs and logs, beside copies of configuration and hooks. ``GIT_CONFIG_SYSTEM`` and
``GIT_CONFIG_GLOBAL`` name copies, too. The configuration of the repository is not even opened again, and all that git
starts for itself inherits this. What does not is git in submodules, so no command is used that goes into them
(``staging``; ``git worktree remove`` only with ``--force``), and the runner looks into each by itself, with a common
directory for it (``removal``). Hooks are off (``git.NO_HOOKS``) but for commits; their programs, and those of filters,
are found outside of workspaces (``programs``). Discovery and the copy itself use what is there, in commands that run
nothing.
"""

from coordinator.runner.workspaces.cleaning import Finding, collect
from coordinator.runner.workspaces.directories import Directories
from coordinator.runner.workspaces.git import GitFailed
from coordinator.runner.workspaces.hooks import Hooks
from coordinator.runner.workspaces.repository import Repository
from coordinator.runner.workspaces.worktrees import MIN_FREE, Worktrees

__all__ = ["MIN_FREE", "Directories", "Finding", "GitFailed", "Hooks", "Repository", "Worktrees", "collect"]
