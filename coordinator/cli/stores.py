"""What commands do with the store of a fleet, and how failures of that work end them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.errors import ToolFailure
from coordinator.processes.stores import open_store, running_url
from coordinator.projects.errors import NotPossible, ProjectProblem
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.projects.lists import noted, written

R = TypeVar("R")

PATIENCE_MS = 20_000
"""The least timeout of calls for work of an operator on a whole project."""
_NAMED = 20
"""How many projects a message names."""
_CODES = {"VALIDATION_ERROR": Exit.USAGE, "RESOURCE_NOT_FOUND": Exit.FAILED}
"""The exit codes of failures; all others mean that the store cannot be used."""
STORE_SETTINGS = ("redis_url", "redis_timeout_ms", "data_dir")
"""The settings of commands that need only the store."""


def patient(settings: Settings) -> Settings:
    """The settings with that timeout: nobody else waits for such work, so the store may take its time."""
    return msgspec.structs.replace(settings, redis_timeout_ms=max(settings.redis_timeout_ms, PATIENCE_MS))


def with_store(loaded: LoadedSettings, act: Callable[[Store], Awaitable[R]]) -> R:
    """Runs ``act`` with the store that a running fleet uses, and returns its result.

    Raises:
        ProcessProblem: the store cannot be used.
        CommandFailed: of a cluster, the shard that ``act`` needs cannot be used, or an argument is malformed.
    """
    settings = loaded.settings
    url = running_url(settings)

    async def run() -> R:
        store = await open_store(url, settings.redis_timeout_ms, partly=True)
        try:
            return await act(store)
        except (ToolFailure, ProjectProblem) as failure:
            raise work_failed(failure) from None
        finally:
            await store.close()

    return asyncio.run(run())


def work_failed(failure: ToolFailure | ProjectProblem) -> CommandFailed:
    """The failure of a command whose store refused a call, or whose work on a whole project ended."""
    if isinstance(failure, ToolFailure):
        return CommandFailed(failure.message, _CODES.get(failure.code, Exit.STORE_UNREACHABLE))
    return CommandFailed(str(failure), Exit.USAGE if isinstance(failure, NotPossible) else Exit.FAILED)


async def unwritten(store: Store, project: str) -> str:
    """The message for an unwritten project, with existing names; empty: it has data, or it is the default.

    Raises:
        ToolFailure: the store cannot be read.
    """
    if project == DEFAULT_PROJECT or await written(store, project):
        return ""
    names = await noted(store)
    close = get_close_matches(project, names, n=1)
    known = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(names)[:_NAMED]) or 'none yet'}"
    return f"there is no project {project}: nobody has written to it; {known}"
