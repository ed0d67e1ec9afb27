"""``fleet project copy`` and ``fleet project accept``: open the stores, and say what was done."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.acting import Reason, operator, recorded
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import PATIENCE_MS, STORE_SETTINGS, patient, work_failed
from coordinator.errors import ToolFailure
from coordinator.operations import Act
from coordinator.processes.stores import open_for_serving, running_url
from coordinator.processes.target_store import PASSWORD, open_target
from coordinator.projects import copying
from coordinator.projects.copying import Copy, End
from coordinator.projects.errors import ProjectProblem
from coordinator.projects.passing import PassingStore
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import StoreError
from coordinator.store.fences.copies import Fencing
from coordinator.store.keys import check_project
from coordinator.store.link.address import parse

_Work = Callable[[End, End | None, PassingStore | None], Awaitable[str]]
"""Gets this store and the other one, if there is one, twice."""


@with_settings(only=STORE_SETTINGS)
def copy(
    loaded: LoadedSettings,
    project: Annotated[str, Parameter(help="Its name, here and there.")],
    /,
    *,
    to: Annotated[
        str, Parameter(help=f"URL of the other store. Its password may be in {PASSWORD} instead.", show_default=False)
    ] = "",
    delete_source: Annotated[
        bool, Parameter(help="Move the project: it is served there from now on, and deleted here.")
    ] = False,
    abort: Annotated[
        bool, Parameter(help="End a copy that was interrupted; in the store of a copy, delete it.")
    ] = False,
    reason: Reason = None,
) -> None:
    if abort and delete_source:
        raise CommandFailed("give --abort or --delete-source, not both", Exit.USAGE)
    if not (to or abort):
        raise CommandFailed("say where to copy the project: --to URL", Exit.USAGE)

    async def do(here: End, there: End | None, passing: PassingStore | None) -> str:
        if abort or there is None or passing is None:
            return await copying.abort(here, there, project)
        say = partial(print, file=sys.stderr)
        return await Copy(here, there, passing, project, delete_source, say, loaded.settings.signing).run()

    action, detail = ("abort_copy", "") if abort else ("copy_project", "and delete it here" if delete_source else "")
    _run(loaded.settings, project, to, reason, action, detail, do)


@with_settings(only=STORE_SETTINGS)
def accept(
    loaded: LoadedSettings, project: Annotated[str, Parameter(help="Its name.")], /, *, reason: Reason = None
) -> None:
    _run(loaded.settings, project, "", reason, "accept_project", "", lambda here, *_: copying.accept(here, project))


def _run(settings: Settings, project: str, to: str, reason: str | None, action: str, detail: str, do: _Work) -> None:
    async def run() -> str:
        async with AsyncExitStack() as stack:
            check_project(project)
            url = running_url(settings)
            # No warning, because the timeout is not that of the settings.
            source = await open_for_serving(patient(settings), url, warns=False)
            stack.push_async_callback(source.close)
            here, there = End(Fencing(source), str(parse(url))), None
            target = await open_target(to, PATIENCE_MS) if to else None
            if target is not None:
                stack.push_async_callback(target.close)
                there = End(Fencing(target), str(parse(target.url)))
            by, act = operator(source, settings, reason), Act(action, "project", project, project, detail)
            async with copying.turn(*filter(None, (here, there))):
                return await recorded(by, act, lambda: do(here, there, target))

    try:
        print(asyncio.run(run()))
    except (ToolFailure, ProjectProblem) as failure:
        raise work_failed(failure) from None
    except StoreError as error:
        raise CommandFailed(_explained(error)) from None


def _explained(error: StoreError) -> str:
    text = str(error)
    if "Bad data format" in text or "payload version" in text:
        return "the target is of an older version than the source, and cannot read its keys"
    return text
