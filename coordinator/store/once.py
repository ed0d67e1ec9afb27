"""What may be used once: tickets and states of sign-ins."""

from __future__ import annotations

from typing import Any

from coordinator.store import keys
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

_KEPT_MS = 60_000
_SPEND: Script[Any] = Script(STORE, "spend_once", scope="fleet")


async def spend(store: Store, id: str, until: int) -> bool:
    """Spends it; True: nobody has before, and it has not ended.

    Args:
        id: of 1 to 64 letters, digits, ``-`` and ``_``; unique.
        until: when it ends, in Unix ms.

    Raises:
        ToolFailure: the store does not answer.
    """
    return bool(await store.run(_SPEND, keys.FLEET, id, until, _KEPT_MS))
