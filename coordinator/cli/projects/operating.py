"""``--format fleet`` of ``fleet import`` and ``fleet export``: for operators, because it works on the store."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from coordinator.cli.checks import check_project_name
from coordinator.cli.connection import Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import of_one_fleet
from coordinator.cli.stores import patient, unwritten, work_failed
from coordinator.errors import ToolFailure
from coordinator.interchange.files import open_regular
from coordinator.interchange.model import ImportProblem
from coordinator.processes.sound import sound
from coordinator.processes.stores import open_for_serving, running_url
from coordinator.projects import native
from coordinator.projects.dumping import dump
from coordinator.projects.restoring import Restored, restore
from coordinator.settings import LoadedSettings, load_settings
from coordinator.store import Store

R = TypeVar("R")


async def _on_store(loaded: LoadedSettings, act: Callable[[Store], Awaitable[R]]) -> R:
    store = await open_for_serving(patient(loaded.settings), running_url(loaded.settings))
    try:
        return await act(store)
    except ToolFailure as failure:
        raise work_failed(failure) from None
    except ImportProblem as problem:
        raise CommandFailed(str(problem), Exit.USAGE) from None
    finally:
        await store.close()


def _loaded(at: Connection, redis_url: str | None) -> LoadedSettings:
    if at.url or at.token_file:
        given = "--url" if at.url else "--token-file"
        raise CommandFailed(
            f"--format fleet works on the store: give --data-dir or --redis-url, not {given}", Exit.USAGE
        )
    check_project_name(at.project)
    return of_one_fleet(sound(load_settings({"data_dir": at.data_dir, "redis_url": redis_url}, os.environ)))


async def export_project(at: Connection, redis_url: str | None) -> None:
    """Prints a project.

    Raises:
        CommandFailed: the store cannot be used, or there is no such project.
    """
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


async def restore_project(at: Connection, redis_url: str | None, file: str, say: Callable[[str], None]) -> Restored:
    """Restores a project from a file, or from stdin (``-``).

    Raises:
        CommandFailed: the file is wrong, the project has other items, or the store cannot be used.
    """
    loaded = _loaded(at, redis_url)
    with _seekable(file) as opened:
        return await _on_store(loaded, lambda store: restore(store, loaded.settings, at.project, opened, say))


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
