"""Real clients with a bearer token: the official ones in Python and TypeScript, in each of their modes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_protected_resource_response,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.transport import FrontEnd
from tests.authentication.support import KEYS, Authenticators, Tokens
from tests.transport.clients import CALLS, hit_rate, old
from tests.transport.live import Live, serving
from tests.transport.nodejs import INSTALL_SECONDS, Node, installed
from tests.transport.rig import Rig, make_app

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(INSTALL_SECONDS + 60)]

ISSUER = "https://login.example.org"


class Guarded:
    """A live front that authenticates its callers, and its tokens."""

    def __init__(self, folder: Path) -> None:
        self.tokens = Tokens(folder / "tokens.yaml")
        self.all = self.tokens.add("agent-1", permissions=("rig",))
        self.reader = self.tokens.add("reader", permissions=("rig.read",))
        self.rig = Rig()
        self.live: Any = None

    def make(self) -> FrontEnd:
        auth = Auth(tokens=str(self.tokens.path), mode="required", verifier=KEYS, authorization_servers=(ISSUER,))
        settings = Settings(toolsets=("rig",), auth=auth)
        return make_app(self.rig, settings=settings, authenticator=Authenticators().make(settings))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("authentication"))
    with serving(guarded.make) as guarded.live:
        yield guarded


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return installed(tmp_path_factory.mktemp("home"))


@asynccontextmanager
async def connected(live: Live, token: str, mode: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(live.url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_python_client(guarded: Guarded, mode: Any) -> None:
    async with connected(guarded.live, guarded.all, mode) as client:
        assert len((await client.list_tools()).tools) == len(guarded.rig.toolset().tools)
        with hit_rate(guarded.live):
            for number in range(CALLS):
                result = await client.call_tool("add", {"left": number, "right": 1})
                assert result.structured_content == {"sum": number + 1}
    assert guarded.rig.callers[-CALLS:] == ["agent-1"] * CALLS


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_with_few_permissions(guarded: Guarded, mode: Any) -> None:
    async with connected(guarded.live, guarded.reader, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        assert (await client.call_tool("add", {"left": 1})).structured_content == {"sum": 2}
        with pytest.raises(Exception, match=r"403|permission"):
            await client.call_tool("nothing", read_timeout_seconds=60)


@pytest.mark.parametrize("era", [*map(old, ("auto", "legacy")), "2026-07-28"])
def test_the_typescript_client(guarded: Guarded, node: Node, era: str) -> None:
    with hit_rate(guarded.live, besides=2):
        done = node.run(node.own("client.mjs"), [guarded.live.url, era, str(CALLS), guarded.all])
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw["wrong"] == 0
    assert saw["failed"]["error"]["code"] == "already_claimed"


@pytest.mark.parametrize("token", [[], ["wrong"]])
def test_the_typescript_client_reports_missing_authorization(guarded: Guarded, node: Node, token: list[str]) -> None:
    done = node.run(node.own("client.mjs"), [guarded.live.url, "auto", "1", *token])
    assert done.returncode != 0
    assert "Unauthorized" in done.stderr or "401" in done.stderr


async def test_a_client_finds_the_issuer(guarded: Guarded) -> None:
    """As the official client does: challenge, metadata, the check of the resource, issuers."""
    url = guarded.live.url
    async with httpx2.AsyncClient(trust_env=False) as http:
        challenged = await http.post(url, json={})
        assert challenged.status_code == 401
        assert extract_scope_from_www_auth(challenged) == "rig"
        named = extract_resource_metadata_from_www_auth(challenged)
        places = build_protected_resource_metadata_discovery_urls(named, url)
        # The challenge's URL, then the well-known ones; all of them answer.
        assert len(places) == 3
        for place in places:
            # A test's front does not know its port.
            found = await handle_protected_resource_response(
                await http.get(place.replace(":8420", f":{guarded.live.port}"))
            )
            assert found is not None
            assert [str(server).rstrip("/") for server in found.authorization_servers] == [ISSUER]
            ours = str(found.resource).replace(":8420", f":{guarded.live.port}")
            assert check_resource_allowed(resource_url_from_server_url(url), ours)
