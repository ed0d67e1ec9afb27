"""What workers have found out about downstream servers, for all front-ends of the fleet."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.store import keys
from coordinator.store.turns import Turns
from coordinator.toolsets.gateway.rules.catalogue import ServerTools

CHANNEL = "fc:gate:servers"
"""The channel on which changes are published."""
_decode = msgspec.json.Decoder(ServerTools).decode


class ServerStore(Turns):
    """Tools of downstream servers by connection. Raises ToolFailure as ``Store.command`` says."""

    async def read(self) -> Mapping[str, ServerTools]:
        """All that is known."""
        found = await self._store.command("HGETALL", keys.gate_servers.key(keys.FLEET))
        pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
        return {name.decode(): _decode(text) for name, text in pairs}

    async def write(self, connection: str, known: ServerTools) -> None:
        """Keeps what is known of one, and tells the front-ends."""
        key = keys.gate_servers.key(keys.FLEET)
        await self._store.command("HSET", key, connection, msgspec.json.encode(known))
        await self._store.command("PUBLISH", CHANNEL, connection)

    async def forget(self, connection: str) -> None:
        """Drops a connection that nothing is imported from any more."""
        await self._store.command("HDEL", keys.gate_servers.key(keys.FLEET), connection)
        await self._store.command("PUBLISH", CHANNEL, connection)
