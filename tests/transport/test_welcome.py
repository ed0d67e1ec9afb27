"""The page at / for people who open a front's address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.transport import FrontEnd
from tests.transport.guarded import Front
from tests.transport.rig import make_app, send

pytestmark = pytest.mark.anyio

HOST = ("host", "127.0.0.1:8420")
BROWSER = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8")


async def test_a_browser_gets_the_welcome_page(app: FrontEnd) -> None:
    response = await send(app, "GET", "/", [HOST, BROWSER])
    assert (response.status, response.content_type) == (200, "text/html")
    page = response.body.decode()
    for words in (
        "<title>Fleet coordinator</title>", "MCP", "http://127.0.0.1:8420/mcp<", "http://127.0.0.1:8420/mcp/rig<",
        "http://127.0.0.1:8420/p/PROJECT/mcp<", "http://127.0.0.1:8420/feed/PROJECT<",
        "/healthz", "/readyz", "/metrics", "claude mcp add --transport http",
    ):  # fmt: skip
        assert words in page
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert len(page) < 4_000


async def test_a_program_gets_plain_text(app: FrontEnd) -> None:
    preferred = [("accept", "text/html;q=0.5, text/plain")]
    for accept in ([], [("accept", "*/*")], [("accept", "application/json")], preferred):
        response = await send(app, "GET", "/", [HOST, *accept])
        assert (response.status, response.content_type) == (200, "text/plain")
        assert "http://127.0.0.1:8420/mcp" in response.body.decode()


async def test_it_takes_get_and_head_only(app: FrontEnd) -> None:
    response = await send(app, "POST", "/", [HOST])
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    # MCP clients with the server's address instead of an endpoint's get this message.
    assert "/ takes GET only; MCP endpoints are /mcp, /mcp/<toolset>, /p/<project>/mcp" in response.body.decode()
    assert (await send(app, "GET", "/", [("host", "evil.example")])).status == 421


async def test_probes_on_the_admin_port_are_not_listed() -> None:
    app = make_app(with_settings={"admin_port": 9})
    page = (await send(app, "GET", "/", [HOST, BROWSER])).body.decode()
    assert "/healthz" in page
    assert "/metrics" not in page
    await app.stop()


async def test_anonymous_callers_do_not_see_the_toolsets(make_front: Callable[..., Front]) -> None:
    front = make_front(resource="https://fleet.example/agents")
    page = (await send(front.app, "GET", "/", [HOST, BROWSER])).body.decode()
    assert "https://fleet.example/agents/mcp<" in page
    assert "needs a bearer token" in page
    assert "/mcp/rig" not in page
