"""The version of a store's key layout: written by the first process that uses the store, checked by all others.

A release whose layout earlier releases would misread has another ``VERSION``. Processes of both cannot use the same
store: the one that comes second refuses to start.
"""

from __future__ import annotations

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import KeySpaceDiffers
from coordinator.store.store import Store

VERSION = 1


async def noted(store: Store) -> int | None:
    """The version of the keys that are there; None: nobody has served there yet.

    Raises:
        ToolFailure: as ``Store.command`` says.
        KeySpaceDiffers: what is noted is no version.
    """
    found = await store.command("GET", keys.key_space.key(keys.FLEET))
    if found is None:
        return None
    if not found.isdigit():
        raise KeySpaceDiffers(f"the store's key-space version is {found[:20]!r}, which is no number")
    return int(found)


async def settle(store: Store) -> None:
    """Makes sure that the keys are laid out as this release does it; for processes that are about to serve.

    A store that does not answer now, or takes no more writes, is no reason not to start.

    Raises:
        KeySpaceDiffers: they are not.
    """
    try:
        found = await noted(store)
        if found is None:
            await store.command("SET", keys.key_space.key(keys.FLEET), VERSION, "NX")
            found = await noted(store)
    except ToolFailure:
        return
    if found not in (None, VERSION):
        raise KeySpaceDiffers(differs(found))


def differs(found: int | None) -> str:
    """What is wrong where another version is noted."""
    which = "a newer" if found is not None and found > VERSION else "an older"
    return f"the store's keys are laid out as {which} release does it (version {found}; this one has {VERSION})"
