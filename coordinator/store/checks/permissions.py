"""Whether the Redis user may run every command that the scripts use.

A script that is denied one of its commands stops there, and what it has written so far stays. So processes check this
before they serve.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import CommandsDenied
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

ADVICE = "allow them with ACL SETUSER, on all keys and channels that begin with fc: (~fc:* &fc:*)"

_DENIED = Script(STORE, "denied_commands", list[str], scope="fleet")
_PRODUCT = Path(__file__).parents[2]
# Begins with literal characters, because the search for those is twenty times as fast.
_CALL = re.compile(r"\('([A-Z]{3,})'")
"""``redis.call('SET'``, or a function of ours that takes the name of a command."""


@functools.cache
def used() -> Sequence[str]:
    """The commands that the scripts use, from their sources."""
    sources = (path.read_text(encoding="utf-8") for path in _PRODUCT.rglob("lua/**/*.lua"))
    return tuple(sorted({command for source in sources for command in _CALL.findall(source)}))


async def denied(store: Store) -> list[str]:
    """Those that the store's user may not run. Raises ToolFailure as ``Store.run`` says."""
    return await store.run(_DENIED, keys.FLEET, *used())


async def require(store: Store) -> None:
    """Checks, before a process serves, that no script would be aborted half-way.

    Does nothing if the store does not answer or is full: a process may start nevertheless.

    Raises:
        CommandsDenied: the store's user lacks permissions.
    """
    try:
        found = await denied(store)
    except ToolFailure:
        return
    if found:
        raise CommandsDenied(f"{lacking(found)}: {ADVICE}")


def lacking(commands: Sequence[str]) -> str:
    """The problem, in words, if these are denied."""
    return f"the Redis user may not run {', '.join(commands)}, which scripts use: they would be stopped half-way"
