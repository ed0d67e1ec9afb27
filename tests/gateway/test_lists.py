"""Lists of downstream servers' tools, as a worker keeps them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.store import Store
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.subscription import Subscription
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, ImportedTool, ServerTools
from coordinator.toolsets.gateway.store.servers import CHANNEL, ServerStore
from tests.gateway.lab import section, settings_of
from tests.support.downstream import raw, stdio
from tests.support.raw_server import FLAWED, OUTPUTS, USABLE, USELESS
from tests.support.wait import wait_until
from workers.connections.pool import Connections
from workers.gateway import servers
from workers.gateway.servers import ServerLists

pytestmark = pytest.mark.anyio


async def listed_by_a_worker(store: Store, settings: Settings, name: str, known: ServerStore) -> ServerTools:
    """The list of a server, once a worker has stored it."""
    connections = Connections(settings)
    keeping = asyncio.create_task(ServerLists(settings, store, connections).run())

    async def listed() -> ServerTools | None:
        return (await known.read()).get(name)

    try:
        found = await wait_until(listed, what="the tools")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connections.close()
        await known.forget(name, await known.time())
    assert found is not None
    return found


def excluding(stated: Gateway, tool: str) -> Gateway:
    """The same section, whose imports exclude a tool."""
    imports = tuple(replace(one, exclude=(tool,)) for one in stated.proxy.imports)
    return replace(stated, proxy=replace(stated.proxy, imports=imports))


class Holding(Connections):
    """Connections with servers that list their tools when they may."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.asked: list[str] = []
        self.may = asyncio.Semaphore(0)

    def server(self, name: str) -> Any:
        async def tools() -> tuple[()]:
            self.asked.append(name)
            await self.may.acquire()
            return ()

        return SimpleNamespace(tools=tools)


@pytest.mark.parametrize("silent", [False, True], ids=["they answer", "they do not"])
async def test_many_servers_are_not_started_at_once(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(servers, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(servers, "TURN_SECONDS", 0.02 if silent else 60.0)
    names = [f"of{project}{number}" for number in range(5)]
    stated = {name: msgspec.to_builtins(stdio()) for name in names}
    imports = [{"connection": name} for name in names]
    settings = settings_of(section(proxy={"import": imports}, connections=stated), project)
    connections, known = Holding(settings), ServerStore(store)
    keeping = asyncio.create_task(ServerLists(settings, store, connections).run())
    try:
        for answered in range(5):
            least = 5 if silent else min(2 + answered, 5)
            await wait_until(lambda: connections.asked[least - 1 :], what="the next server")  # noqa: B023 -- awaited here
            assert len(connections.asked) == least
            connections.may.release()

        async def listed() -> bool:
            return set(names) <= (await known.read()).keys()

        await wait_until(listed, what="all lists")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connections.close()
        for name in names:
            await known.forget(name, await known.time())


async def test_a_worker_that_stops_while_servers_answer_leads_no_longer(store: Store, project: str) -> None:
    name = f"of{project}"
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(stdio())})
    connections = Holding(settings_of(stated, project))
    keeping = asyncio.create_task(ServerLists(settings_of(stated, project), store, connections).run())
    await wait_until(lambda: connections.asked, what="the request")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await connections.close()
    assert await LeaderLeases(store).acquire("servers", "another", 1)


async def test_a_list_that_could_not_be_stored_is_requested_again(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, refused, write = f"of{project}".replace("_", "-"), [1], ServerStore.write

    async def failing(self: ServerStore, connection: str, known: ServerTools, asked: int) -> bool:
        if refused:
            refused.clear()
            raise ToolFailure("store_full", "there is no memory left")
        return await write(self, connection, known, asked)

    monkeypatch.setattr(ServerStore, "write", failing)
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.01)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(raw("flawed"))})
    settings = settings_of(stated, project)
    connections = Connections(settings)
    keeping = asyncio.create_task(ServerLists(settings, store, connections).run())
    known = ServerStore(store)

    async def listed() -> bool:
        return name in await known.read()

    try:
        await wait_until(listed, what="the tools, long before the next interval")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connections.close()
        await known.forget(name, await known.time())


async def test_a_server_that_always_changes_is_throttled(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, known, pause = f"of{project}".replace("_", "-"), ServerStore(store), 0.3
    monkeypatch.setattr(servers, "REST_SECONDS", pause)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(raw("restless"))})
    settings = settings_of(stated, project)
    connections = Connections(settings)
    lists = ServerLists(settings, store, connections)
    connections.on_change = lists.changed
    keeping = asyncio.create_task(lists.run())

    async def first(count: int) -> float | None:
        found = (await known.read()).get(name, ServerTools())
        return asyncio.get_running_loop().time() if len(found.tools) >= count else None

    try:
        began, ended = await wait_until(lambda: first(1)), await wait_until(lambda: first(5))
        assert began is not None
        assert ended is not None
        assert ended - began > 3 * pause
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await connections.close()
        await known.forget(name, await known.time())


async def test_a_tool_with_an_invalid_schema_hides_no_other_tool(store: Store, project: str) -> None:
    name, known = f"of{project}".replace("_", "-"), ServerStore(store)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(raw("flawed"))})
    found = await listed_by_a_worker(store, settings_of(stated, project), name, known)
    assert found.available
    assert [tool.name for tool in found.tools] == ["good", "last"]
    told = {one.tool: one.reason for one in found.left_out}
    assert told.keys() == {*FLAWED, "1", "None", "nothing", "inside"}
    assert told["inside"].startswith("inputSchema is no JSON Schema: properties.x.type: 'banana'")


async def test_what_is_left_out_is_stored_with_the_reason(store: Store, project: str) -> None:
    name, known = f"of{project}".replace("_", "-"), ServerStore(store)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(raw("schemas"))})
    found = await listed_by_a_worker(store, settings_of(stated, project), name, known)
    assert {tool.name for tool in found.tools} == {*USABLE, *OUTPUTS, "nulls", "two words"}
    schemas = {tool.name: tool.input_schema or {} for tool in found.tools}
    assert schemas["letters"]["properties"] == USABLE["letters"], "what is valid stays as it is"
    assert schemas["draft-3"] == {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    assert schemas["draft-4"]["properties"] == {"x": {"type": "integer", "exclusiveMinimum": 0}}
    assert schemas["booleans"]["properties"] == USABLE["booleans"]
    assert schemas["empties"]["properties"] == {"x": {}, "y": {"type": "object", "properties": {}}}
    assert schemas["nulls"] == {"type": "object"}
    told = {one.tool: one.reason for one in found.left_out}
    assert told.keys() == {*USELESS} - {"two words"}
    assert told["as-task"].startswith("it can only be called as a task (execution.taskSupport: required)")
    assert told["broken"].startswith("inputSchema is no JSON Schema that can be used: $ref '#/$defs/x' leads nowhere")
    assert told["elsewhere"].startswith("inputSchema is no JSON Schema that can be used: $ref 'https://example.org/x'")
    assert told["unclosed"].endswith("properties.x.pattern: '(' is not a 'regex': a '(' is not closed")
    # Another process adds what its settings say of the names.
    catalogue = Catalogue(stated, servers={name: found})
    assert [one.tool for one in catalogue.left_out[name]] == [*told, "two words"]
    assert [one.tool for one in Catalogue(excluding(stated, "broken"), servers={name: found}).left_out[name]] == [
        tool for tool in (*told, "two words") if tool != "broken"
    ]


async def test_what_is_stored_of_tools_left_out_is_bounded(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "MOST_LEFT_OUT", 2)
    name, known = f"of{project}".replace("_", "-"), ServerStore(store)
    stated = section(proxy={"import": [{"connection": name}]}, connections={name: msgspec.to_builtins(raw("schemas"))})
    found = await listed_by_a_worker(store, settings_of(stated, project), name, known)
    assert (len(found.left_out), found.more_left_out) == (2, len(USELESS) - 3)
    assert Catalogue(stated, servers={name: found}).more_left_out(name) == len(USELESS) - 3


async def test_the_latest_request_wins(store: Store, project: str) -> None:
    name, known = f"of{project}".replace("_", "-"), ServerStore(store)
    old, new = (ServerTools((ImportedTool(tool),)) for tool in ("old", "new"))
    later = await known.time() - 1
    earlier = later - 1
    assert await known.write(name, new, later)
    assert not await known.write(name, old, earlier)
    await known.forget(name, earlier)
    assert (await known.read())[name] == new
    assert await known.write(name, old, later + 1)
    assert (await known.read())[name] == old
    await known.forget(name, later + 1)
    assert name not in await known.read()
    # Nothing remains of it: another connection may take the name, on a server whose clock was set back.
    assert await known.write(name, new, earlier)
    await known.forget(name, earlier)


async def test_a_list_from_the_future_is_replaced(store: Store, project: str) -> None:
    name, known = f"of{project}".replace("_", "-"), ServerStore(store)
    old, new = (ServerTools((ImportedTool(tool),)) for tool in ("old", "new"))
    # from the server's clock before it was set back
    assert await known.write(name, old, await known.time() + 3_600_000)
    now = await known.time()
    assert await known.write(name, new, now)
    assert (await known.read())[name] == new
    # From then on its time counts normally.
    assert not await known.write(name, old, now - 1)
    assert await known.write(name, new, now + 3_600_000)
    await known.forget(name, now)
    assert name not in await known.read()


async def test_only_changes_are_published(store: Store, project: str) -> None:
    name, known, told = f"of{project}".replace("_", "-"), ServerStore(store), list[bytes]()
    subscription = Subscription(store, (CHANNEL,), "test", lambda channel, data: told.append(data), lambda: None)
    subscription.start()
    await subscription.ready()
    try:
        for asked in (1, 2, 3):
            await known.write(name, ServerTools(available=asked < 3), asked)
        await known.forget(name, 4)
        await store.command("PUBLISH", CHANNEL, b"last")
        await wait_until(lambda: b"last" in told)
        assert [one for one in told if one == name.encode()] == [name.encode()] * 3
    finally:
        await subscription.close()
