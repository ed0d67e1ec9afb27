"""``fleet store accept``: makes the present store replace the one that the fleet had."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.errors import ToolFailure
from coordinator.processes.stores import given_url, open_store, store_failed
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import AddressError, Store, StoreIdentity
from coordinator.store.checks.identity import identity_file
from coordinator.store.cluster.places import look_at_all, mark
from coordinator.store.embedded.server import find_running


@with_settings(only=(*STORE_SETTINGS, "store_id"), finds_fleet=False)  # a directory also has a store's identity
def accept(
    loaded: LoadedSettings,
    *,
    instead_of: Annotated[
        str,
        Parameter(help="Identity of the store that the fleet had. Default: the one that the data directory remembers."),
    ] = "",
) -> int:
    settings = loaded.settings
    url = given_url(settings) or find_running(settings.data_dir)
    if url is None:
        # The embedded store runs only while its fleet does: the next start accepts the data that it finds.
        file = identity_file(settings.data_dir, "")
        if not file.read():
            raise CommandFailed(f"no store runs, and the data directory {settings.data_dir} remembers none")
        file.keep("")
        print(f"the next `fleet up` takes the data that it finds in {settings.data_dir} for the fleet's")
        return Exit.OK
    return asyncio.run(_accept(settings, url, instead_of))


async def _accept(settings: Settings, url: str, instead_of: str) -> int:
    try:
        file = identity_file(settings.data_dir, url)
    except AddressError as error:
        raise store_failed(error) from None
    remembered = instead_of or file.read()
    store = await open_store(url, settings.redis_timeout_ms)
    try:
        found = store.identity.known
        if found and found == (settings.store_id or remembered):
            print(f"the store {found} is the one that the fleet has")
            return await _accept_projects(store)
        if found and not (settings.store_id or remembered):
            if store.sharded:
                _report(found, "")
                return await _accept_projects(store)
            raise CommandFailed(
                f"the store has the identity {found}, and nothing here says which one the fleet had: give --instead-of "
                "(/readyz of a process that refuses calls names it)",
                Exit.USAGE,
            )
        store.identity = StoreIdentity(found, settings.store_id, keep=file.keep, accepted=file.accepted())
        identity = await store.accept(remembered)
        _report(identity, remembered or settings.store_id)
        return await _accept_projects(store)
    except ToolFailure as failure:
        raise CommandFailed(failure.message, Exit.STORE_UNREACHABLE) from None
    finally:
        await store.close()


def _report(identity: str, was: str) -> None:
    if was == identity:
        print(f"the store is {identity} now")
    elif was:
        print(f"the store is {identity} now, in place of {was}")
    else:
        print(
            f"the store is {identity} now; if processes still refuse calls, repeat this with --instead-of and the "
            "identity that their /readyz says the fleet had"
        )


async def _accept_projects(store: Store) -> int:
    """Accepts the projects of a cluster whose shard was emptied or replaced. Raises ToolFailure."""
    if not store.sharded:
        return Exit.OK
    found = await look_at_all(store.command_of, store.identity)
    for project in found.lost:
        await mark(store.command_of, project, store.identity)
        print(f"the project {project} is accepted as it is now")
    if found.unseen:
        print(f"not seen, because their shards do not answer: {', '.join(found.unseen)}", file=sys.stderr)
        return Exit.STORE_UNREACHABLE
    return Exit.OK
