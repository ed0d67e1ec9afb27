"""``fleet store accept``: makes the present store replace the one that the fleet had."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.acting import Reason, operator, recorded
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.errors import ToolFailure
from coordinator.operations import Act
from coordinator.processes.stores import given_url, open_store, store_failed
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import AddressError, Store, StoreIdentity
from coordinator.store.checks.identity import IdentityFile, identity_file
from coordinator.store.cluster.places import look_at_all, mark
from coordinator.store.embedded.server import find_running
from coordinator.store.link.address import parse


@with_settings(only=(*STORE_SETTINGS, "store_id"), finds_fleet=False)  # a directory also has a store's identity
def accept(
    loaded: LoadedSettings,
    *,
    instead_of: Annotated[
        str,
        Parameter(help="Identity of the store that the fleet had. Default: the one that the data directory remembers."),
    ] = "",
    reason: Reason = None,
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
    return asyncio.run(_accept(settings, url, instead_of, reason))


async def _accept(settings: Settings, url: str, instead_of: str, reason: str | None) -> int:
    try:
        file, act = identity_file(settings.data_dir, url), Act("accept_store", "store", str(parse(url)))
    except AddressError as error:
        raise store_failed(error) from None
    remembered = instead_of or file.read()
    store, unseen = await open_store(url, settings.redis_timeout_ms), list[str]()

    async def do() -> str:
        accepted = [await _take(store, settings, file, remembered)]
        print(accepted[0])
        if store.sharded:
            projects = await look_at_all(store.command_of, store.identity)
            unseen.extend(projects.unseen)
            for project in projects.lost:
                await mark(store.command_of, project, store.identity)
                accepted.append(f"the project {project} is accepted as it is now")
                print(accepted[-1])
        return "; ".join(accepted)

    try:
        await recorded(operator(store, settings, reason), act, do)
    except ToolFailure as failure:
        raise CommandFailed(failure.message, Exit.STORE_UNREACHABLE) from None
    finally:
        await store.close()
    if unseen:
        print(f"not seen, because their shards do not answer: {', '.join(unseen)}", file=sys.stderr)
    return Exit.STORE_UNREACHABLE if unseen else Exit.OK


async def _take(store: Store, settings: Settings, file: IdentityFile, remembered: str) -> str:
    """Has the store take the place of the one that is remembered; returns which store it is, in a sentence."""
    known, was = store.identity.known, remembered or settings.store_id
    if known and known == (settings.store_id or remembered):
        return f"the store {known} is the one that the fleet has"
    if was or not known:
        store.identity = StoreIdentity(known, settings.store_id, keep=file.keep, accepted=file.accepted())
        known = await store.accept(remembered)
    elif not store.sharded:
        raise CommandFailed(
            f"the store has the identity {known}, and nothing here says which one the fleet had: give --instead-of "
            "(/readyz of a process that refuses calls names it)",
            Exit.USAGE,
        )
    if was:
        return f"the store is {known} now" + (f", in place of {was}" if was != known else "")
    return (
        f"the store is {known} now; if processes still refuse calls, repeat this with --instead-of and the identity "
        "that their /readyz says the fleet had"
    )
