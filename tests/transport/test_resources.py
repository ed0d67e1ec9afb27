"""Resources of toolsets: over HTTP in every revision, and who may read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from coordinator.toolsets.caller import Caller
from coordinator.transport.endpoints import Endpoint, Endpoints, Target
from tests.authentication.support import KEYS
from tests.transport.guarded import Front, ask
from tests.transport.live import Live, serving
from tests.transport.rig import FACTS, Rig, dotted_toolset, flows_toolset, make_app, modern

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(make_app) as live:
        yield live


def endpoint(path: str) -> Endpoint:
    toolsets = {one.name: one for one in (Rig().toolset(), dotted_toolset(), flows_toolset())}
    target = Endpoints(toolsets, ("rig",)).resolve(path)
    assert isinstance(target, Target)
    return target.endpoint


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
@pytest.mark.parametrize("toolsets", ["gateway", "rig,gateway"])
async def test_clients_list_and_read_them(live: Live, toolsets: str, mode: Any) -> None:
    async with Client(f"{live.url}/{toolsets}", mode=mode) as client:
        (listed,) = (await client.list_resources()).resources
        assert (listed.uri, listed.name, listed.description) == FACTS[:3]
        assert (listed.mime_type, listed.size) == ("application/json", len(FACTS.text.encode()))
        (content,) = (await client.read_resource(FACTS.uri)).contents
        assert content.model_dump(exclude_none=True) == {
            "uri": FACTS.uri, "mime_type": "application/json", "text": FACTS.text,
        }  # fmt: skip
        with pytest.raises(MCPError, match="Unknown resource: rig://nothing; there are: rig://facts"):
            await client.read_resource("rig://nothing")
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_resources(cursor="more")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_toolset_without_any_does_not_offer_them(live: Live, mode: Any) -> None:
    async with Client(live.url, mode=mode) as client:
        assert client.server_capabilities.resources is None
        with pytest.raises(MCPError, match="Method not found"):
            await client.read_resource(FACTS.uri)


async def test_they_are_cacheable_if_all_callers_get_the_same(make_front: Callable[..., Front]) -> None:
    guarded, open_to_all = make_front(verifier=KEYS), make_app()
    for method, params in (("resources/list", {}), ("resources/read", {"uri": FACTS.uri})):
        for front, token, scope in ((open_to_all, None, "public"), (guarded, guarded.all, "private")):
            answer = (await ask(front, token, modern(method, params), "/mcp/gateway")).json["result"]
            assert (answer["ttlMs"], answer["cacheScope"]) == (300_000, scope)
    await open_to_all.stop()


async def test_resources_of_unpermitted_toolsets_are_hidden(make_front: Callable[..., Front]) -> None:
    front = make_front(verifier=KEYS)
    reading = modern("resources/read", {"uri": FACTS.uri})
    assert (await ask(front, front.reader, reading, "/mcp/gateway")).status == 403
    refused = (await ask(front, front.reader, reading, "/mcp/rig,gateway")).json["error"]
    assert refused["message"] == "Unknown resource: rig://facts; there are: none"


def test_permission_for_reading_tools_includes_resources() -> None:
    both = endpoint("/mcp/gateway,flows")

    def readable(*permissions: str) -> list[str]:
        return list(both.resources(Caller("a", permissions=frozenset(permissions))))

    assert list(both.resources(None)) == [FACTS.uri]
    assert readable("gateway") == readable("gateway.read") == [FACTS.uri]
    assert readable("flows") == readable() == []
