"""``--workspace``: a directory that is there, or one for each item. Nothing in it is ever removed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.runner.commands import program_at
from coordinator.runner.protocols import JobAttempt, Program, WorkspaceFailed
from coordinator.runner.workspaces.hooks import NONE, Hooks
from coordinator.runner.workspaces.own_files import changed_since, own_files
from coordinator.runner.workspaces.worktrees import GIB

ITEM = "{item.id}"
"""Stands for the item's id in the path."""


@dataclass(frozen=True, slots=True)
class Directories:
    """See ``protocols.Workspaces``. ``setup`` runs when a directory is made, so only where each item has one.

    Args:
        where: the directory; with ``{item.id}`` in it each item has one of its own, which its attempts share.
        min_free: bytes that must be free.
        own: directories in which the runner keeps files.
    """

    where: str
    hooks: Hooks = NONE
    min_free: int = 0
    own: Sequence[Path] = ()

    async def start(self) -> tuple[()]:
        what = f"--workspace {self.where}"
        if self.hooks.teardown or (self.hooks.setup and ITEM not in self.where):
            which = "--teardown" if self.hooks.teardown else "--setup"
            hint = "" if self.hooks.teardown else f", or {ITEM} in the path"
            raise WorkspaceFailed(f"{which} needs --worktree{hint}: {what} is not made by the runner", broken=True)
        path = Path(self.where.partition(ITEM)[0] or ".")
        above = path if ITEM not in self.where or self.where.partition(ITEM)[0].endswith("/") else path.parent
        if not above.is_dir():
            raise WorkspaceFailed(f"{what}: {above} is not a directory", broken=True)
        if not os.access(above, os.W_OK | os.X_OK):
            raise WorkspaceFailed(f"{what}: {above} cannot be written to", broken=True)
        return ()

    def program(self, path: str, *, made: bool) -> Program | None:
        """What is at a path; nothing is known of directories that are still to be made."""
        above = Path(self.where.partition(ITEM)[0]).absolute()
        place = Path(os.path.normpath(above / path))
        known = place.is_relative_to(above) and (made or ITEM in self.where)
        if known:
            return None
        program = program_at(place)
        if program.kind == "missing" and not os.path.isabs(path):
            return Program("missing", why=f"does not exist in {above}")
        return program

    async def open(self, attempt: JobAttempt) -> Directory:
        """Makes the directory of an item, if it has one."""
        path, new, free = await asyncio.to_thread(self._make, attempt.item_id)
        if free < self.min_free:
            raise WorkspaceFailed(
                f"{free / GIB:.1f} GiB are free at {path}, below --min-free {self.min_free / GIB:g}", later=True
            )
        if new and (problem := await self.hooks.run("setup", attempt, path, {})):
            # The next attempt is to run it again.
            with_it = path.with_name(f"{path.name}.failed-{attempt.run_id[:8]}")
            await asyncio.to_thread(path.rename, with_it)
            raise WorkspaceFailed(f"{problem}; the directory is kept as {with_it}")
        await self.hooks.must("before", attempt, path, {})
        return Directory(path, attempt, self.hooks, self.own)

    def _make(self, item_id: str) -> tuple[Path, bool, int]:
        path = Path(self.where.replace(ITEM, item_id)).absolute()
        new = ITEM in self.where and not path.exists()
        try:
            if new:
                path.mkdir(parents=True)
            return path, new, shutil.disk_usage(path).free
        except OSError as error:
            raise WorkspaceFailed(f"{path}: {error.strerror}", broken=True) from None


class Directory:
    def __init__(self, path: Path, attempt: JobAttempt, hooks: Hooks, own: Sequence[Path]) -> None:
        self.path = path
        self._attempt, self._hooks, self._own = attempt, hooks, own
        self.remarks = ()

    def changed_since(self, moment: float) -> bool:
        """Whether a file was changed after a moment, those of the runner left out."""
        return changed_since(self.path, moment, own_files(self._own))

    changed = changed_since

    async def commit(self) -> str | None:
        """Runs the ``after`` hook. It commits nothing: the directory is not the runner's."""
        if not self.path.is_dir():
            raise WorkspaceFailed(f"the workspace {self.path} was deleted")
        await self._hooks.run("after", self._attempt, self.path, {})
        return None

    async def close(self, *, done: bool) -> str:
        return f"left at {self.path}"
