"""``fleet project move``: moves a project to another shard of the cluster that is the store."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

from cyclopts import Parameter

# What the other shard is given before the project comes.
import coordinator.feed
import coordinator.toolsets.registry
import coordinator.webhooks.records  # noqa: F401
from coordinator.cli.acting import Reason, operator, recorded
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, patient, unwritten, with_store
from coordinator.errors import ToolFailure
from coordinator.operations import Act
from coordinator.projects import moving
from coordinator.settings import LoadedSettings
from coordinator.store import Store, StoreError
from coordinator.store.keys import check_project
from coordinator.store.link.address import parse


@with_settings(only=STORE_SETTINGS)
def move(
    loaded: LoadedSettings,
    project: Annotated[str, Parameter(help="Its name.")],
    /,
    *,
    to: Annotated[int, Parameter(help="The number of the shard, as `fleet cluster status` has it.")],
    reason: Reason = None,
) -> None:
    async def act(store: Store) -> str:
        address = parse(store.url)
        if not address.nodes:
            raise CommandFailed(f"the store at {address} is no cluster: `fleet project copy` is for others", Exit.USAGE)
        check_project(project)
        with contextlib.suppress(ToolFailure):  # halfway to another shard, it cannot be read
            if why := await unwritten(store, project):
                raise CommandFailed(why, Exit.USAGE)
        by = operator(store, loaded.settings, reason)
        moved = Act("move_project", "project", project, project, f"to shard {to}")
        say = partial(print, file=sys.stderr)
        try:
            return await recorded(by, moved, lambda: moving.move(address, store, project, to, say))
        except StoreError as error:
            raise CommandFailed(str(error)) from None

    print(with_store(replace(loaded, settings=patient(loaded.settings)), act))
