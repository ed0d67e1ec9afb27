"""The version of a store's key layout (``layout.py``): written by the first process that uses the store, checked by
all others.

Processes of two layouts cannot use the same store: the one that comes second refuses to start.
"""

from __future__ import annotations

import asyncio

import structlog

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import KeySpaceDiffers, StoreChanged, StoreError
from coordinator.store.layout import VERSION, differs, version_of
from coordinator.store.store import Store

ADVICE = "serve this store with the release that it belongs to, or give this one another store"

_AGAIN_SECONDS = 0.25
_log = structlog.get_logger(__name__)


async def noted(store: Store) -> int | None:
    """The version that the store's keys have; None: no process has served from this store yet.

    Raises:
        ToolFailure: as ``Store.command`` says.
        KeySpaceDiffers: the noted version is not a number.
    """
    return version_of(await store.command("GET", keys.key_space.key(keys.FLEET)))


async def settle(store: Store) -> None:
    """Checks, before a process serves, that the store has this release's key layout and an identity, or gives it both.

    If the store does not answer or takes no writes, the process may start nevertheless, but is not ready
    (``Store.ping``) until both are there; that is tried again from time to time.

    Raises:
        KeySpaceDiffers: it has the layout of another release.
        StoreChanged: it is in use, but has no identity.
    """
    store.follow()
    try:
        await _settle(store)
    except ToolFailure as failure:
        store.unready = "the store has not been given its identity and the version of its keys yet"
        _log.warning("the store cannot be given an identity yet: this process is not ready", reason=failure.message)
        store.settle_later(_settle_later(store))


async def _settle_later(store: Store) -> None:
    while store.unready:
        await asyncio.sleep(_AGAIN_SECONDS)
        try:
            await _settle(store)
        except ToolFailure:
            continue
        except StoreError as error:  # an operator has to fix this
            if str(error) != store.unready:
                store.unready = str(error)
                _log.error("the store cannot be served from", reason=str(error))
        else:
            store.unready = ""
            _log.info("the store has its identity", identity=store.identity.known)


async def _settle(store: Store) -> None:
    """Tries it once. Raises as ``settle``, and ToolFailure as ``Store.command``."""
    found = await noted(store)
    if found is None:
        await store.establish()
        await store.command("SET", keys.key_space.key(keys.FLEET), VERSION, "NX")
        found = await noted(store)
    elif not store.identity.known:
        await store.make_sure()  # another process may have begun to serve since this one connected
    if found == VERSION and not store.identity.known:
        raise StoreChanged("the store is in use but has no identity; to serve it anyway: fleet store accept")
    if found not in (None, VERSION):
        raise KeySpaceDiffers(f"{differs(found)}: {ADVICE}")
