"""``--format fleet`` of ``fleet import`` and ``fleet export``: for operators, because it works on the store."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from coordinator.cli.acting import operator, recorded
from coordinator.cli.checks import check_project_name
from coordinator.cli.connection import Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import of_one_fleet
from coordinator.cli.stores import patient, unwritten, work_failed
from coordinator.errors import ToolFailure
from coordinator.interchange.files import open_regular
from coordinator.operations import Act
from coordinator.processes.sound import sound
from coordinator.processes.stores import open_for_serving, running_url
from coordinator.projects import native
from coordinator.projects.dumping import dump
from coordinator.projects.errors import ProjectProblem
from coordinator.projects.restoring import Restored, restore
from coordinator.settings import LoadedSettings, load_settings
from coordinator.store import Store
from coordinator.wording import counted

R = TypeVar("R")


async def _on_store(loaded: LoadedSettings, act: Callable[[Store], Awaitable[R]]) -> R:
    store = await open_for_serving(patient(loaded.settings), running_url(loaded.settings))
    try:
        return await act(store)
    except (ToolFailure, ProjectProblem) as failure:
        raise work_failed(failure) from None
    finally:
        await store.close()


def _loaded(at: Connection, redis_url: str | None) -> LoadedSettings:
    if at.url or at.token_file:
        option = "--url" if at.url else "--token-file"
        raise CommandFailed(
            f"--format fleet works on the store: give --data-dir or --redis-url, not {option}", Exit.USAGE
        )
    check_project_name(at.project)
    return of_one_fleet(sound(load_settings({"data_dir": at.data_dir, "redis_url": redis_url}, os.environ)))


async def export_project(at: Connection, redis_url: str | None) -> None:
    """Prints a project. Raises CommandFailed: the store cannot be used, or there is no such project."""
    out = sys.stdout.buffer

    async def act(store: Store) -> None:
        if why := await unwritten(store, at.project):
            raise CommandFailed(why, Exit.USAGE)
        number = 0
        async for line in dump(store, at.project):
            out.write(native.encode(line) + b"\n")
            number += 1
        out.write(native.encode(native.End(lines=number)) + b"\n")
        out.flush()

    await _on_store(_loaded(at, redis_url), act)


async def restore_project(
    at: Connection, redis_url: str | None, file: str, reason: str | None, say: Callable[[str], None]
) -> tuple[Restored, str]:
    """Restores a project from a file, or from stdin (``-``); returns what was done, also as a sentence."""
    loaded, done = _loaded(at, redis_url), Restored()

    async def act(store: Store) -> str:
        async def do() -> str:
            nonlocal done
            done = await restore(store, loaded.settings, at.project, opened, say)
            counts = f"{counted(done.items, 'item')}, {counted(done.notes, 'note')}"
            edges = counted(done.dependencies, "dependency", "dependencies")
            moves = counted(done.transitions, "transition")
            return f"restored into project {at.project}: {counts}, {edges}, {moves}"

        by = operator(store, loaded.settings, reason)
        return await recorded(by, Act("restore_project", "project", at.project, at.project), do)

    with _seekable(file) as opened:
        said = await _on_store(loaded, act)
    return done, said


def _seekable(file: str) -> BinaryIO:
    """The file, or what stdin has, which is read several times."""
    try:
        if file != "-":
            return open_regular(Path(file))
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
        shutil.copyfileobj(sys.stdin.buffer, spool)
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}", Exit.USAGE) from None
    return spool
