"""The tools of downstream servers, which one worker reads for all front-ends of the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.store import Script, Store, keys
from coordinator.toolsets.gateway.rules.catalogue import ServerTools
from coordinator.toolsets.gateway.store.instances import LIBRARY

CHANNEL = "fc:gate:servers"
"""The channel on which ``keep_server.lua`` announces changes."""
_KEEP: Script[Any] = Script(LIBRARY, "keep_server", scope="fleet")
_decode = msgspec.json.Decoder(ServerTools).decode


class ServerStore:
    """The tools of downstream servers by connection. Raises ToolFailure as ``Store.command`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> Mapping[str, ServerTools]:
        stored = await self._store.command("HGETALL", keys.gate_servers.key(keys.FLEET))
        pairs = stored.items() if isinstance(stored, dict) else zip(stored[::2], stored[1::2], strict=True)
        return {name.decode(): _decode(text) for name, text in pairs}

    async def time(self) -> int:
        """The store's time in Unix ms: when a server was asked, for ``write`` and ``forget``."""
        return await self._store.time()

    async def write(self, connection: str, known: ServerTools, asked_at: int) -> bool:
        """Stores a server's list and notifies the front-ends. Returns False if another process asked it later."""
        return bool(await self._store.run(_KEEP, keys.FLEET, connection, asked_at, msgspec.json.encode(known)))

    async def forget(self, connection: str, asked_at: int) -> None:
        """Deletes the list of a server from which nothing is imported any more, and notifies the front-ends."""
        await self._store.run(_KEEP, keys.FLEET, connection, asked_at, "")
