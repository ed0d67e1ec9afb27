"""Lists of downstream servers' tools, as a worker keeps them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.gateway.rules.catalogue import ServerTools
from coordinator.toolsets.gateway.store.servers import ServerStore
from tests.gateway.lab import section, settings_of
from tests.support.downstream import stdio
from tests.support.wait import wait_until
from workers.connections import Connections
from workers.gateway import servers
from workers.gateway.servers import ServerLists

pytestmark = pytest.mark.anyio


async def test_what_the_store_did_not_take_is_asked_for_again_at_the_next_look(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, refused, write = f"of{project}".replace("_", "-"), [1], ServerStore.write

    async def failing(self: ServerStore, connection: str, known: ServerTools) -> None:
        if refused:
            refused.clear()
            raise ToolFailure("store_full", "there is no memory left")
        await write(self, connection, known)

    monkeypatch.setattr(ServerStore, "write", failing)
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.01)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(stdio())})
    settings = settings_of(stated, project)
    connections = Connections(settings)
    lists = ServerLists(settings, store, connections)
    keeping = asyncio.create_task(lists.run())
    known = ServerStore(store)

    async def listed() -> bool:
        return name in await known.read()

    try:
        await wait_until(listed, what="the tools, long before they are due again")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connections.close()
        await known.forget(name)
