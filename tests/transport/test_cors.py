"""CORS: preflights, and headers on every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from coordinator.transport import FrontEnd
from tests.transport.fuzz import PAGE
from tests.transport.guarded import Front
from tests.transport.live import serving
from tests.transport.rig import call, legacy, make_app, modern, send
from tests.transport.wire import Client, raw

pytestmark = pytest.mark.anyio

ADD = call("add", {"left": 2, "right": 3})
HOST = ("host", "127.0.0.1:8420")
FROM_PAGE = ("origin", PAGE)
ASKED = [
    HOST,
    FROM_PAGE,
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "authorization,content-type,mcp-method,x-custom"),
]


@pytest.fixture(params=[True, False], ids=["fast", "sdk"])
async def app(request: pytest.FixtureRequest) -> AsyncIterator[FrontEnd]:
    app = make_app(fast=request.param, with_settings={"allowed_origins": (PAGE,)})
    yield app
    await app.stop()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/rig", "/p/x/mcp", "/mcp/nope", "/healthz", "/nothing"])
async def test_a_preflight_allows_what_the_page_asks_for(app: FrontEnd, path: str) -> None:
    response = await send(app, "OPTIONS", path, ASKED)
    assert (response.status, response.body) == (204, b"")
    assert "content-length" not in response.headers
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "POST" in response.headers["access-control-allow-methods"]
    assert response.headers["access-control-allow-headers"] == ASKED[-1][1]
    assert int(response.headers["access-control-max-age"]) > 0
    assert response.headers["vary"] == "origin"
    assert "access-control-allow-private-network" not in response.headers
    response = await send(app, "OPTIONS", path, [*ASKED, ("access-control-request-private-network", "true")])
    assert response.headers["access-control-allow-private-network"] == "true"


async def test_a_preflight_of_another_origin_is_refused(app: FrontEnd) -> None:
    for origin in ("https://evil.example", "null", PAGE + ":8443"):
        asked = [("origin", origin) if header is FROM_PAGE else header for header in ASKED]
        response = await send(app, "OPTIONS", "/mcp", asked)
        assert response.status == 403
        assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_every_answer_names_the_origin(app: FrontEnd) -> None:
    good = [modern("tools/call", ADD), legacy("tools/call", ADD), modern("tools/list"), legacy("tools/list", {})]
    bad = [
        modern("tools/call", call("nope")),
        modern("tools/call", ADD, accept="text/html"),
        modern("tools/call", ADD, content_type="text/plain"),
        modern("nope"),
        ([*legacy("tools/call", ADD)[0]], b"{"),
        modern("tools/call", ADD, host="evil.example"),
    ]
    answers = [await send(app, "POST", "/mcp", [*headers, FROM_PAGE], body) for headers, body in (*good, *good, *bad)]
    assert [one.status for one in answers] == [200] * 8 + [400, 406, 415, 404, 400, 421]
    answers += [await send(app, "GET", path, [HOST, FROM_PAGE]) for path in ("/mcp", "/", "/healthz", "/readyz", "/x")]
    assert [one.status for one in answers[-5:]] == [405, 200, 200, 200, 404]
    for one in answers:
        assert one.headers["access-control-allow-origin"] == PAGE
        assert "www-authenticate" in one.headers["access-control-expose-headers"]
        assert "origin" in one.headers["vary"]


async def test_requests_without_an_allowed_origin_get_no_cors_headers(app: FrontEnd) -> None:
    headers, body = modern("tools/call", ADD)
    for more in ([], [("origin", "http://127.0.0.1:8420")]):
        for _ in range(2):
            response = await send(app, "POST", "/mcp", [*headers, *more], body)
            assert response.status == 200
            # A cache must not share an answer between origins.
            assert response.headers["vary"] == "origin"
            assert "access-control-allow-origin" not in response.headers


async def test_without_allowed_origins_nothing_is_added() -> None:
    app = make_app()
    headers, body = modern("tools/call", ADD)
    for _ in range(2):
        response = await send(app, "POST", "/mcp", headers, body)
        assert not {"vary", "access-control-allow-origin"} & set(response.headers)
    await app.stop()


async def test_pages_can_read_authorization_errors(make_front: Callable[..., Front]) -> None:
    front = make_front(origins=(PAGE,), authorization_servers=("https://issuer.example",))
    headers, body = modern("tools/call", ADD)
    assert (await send(front.app, "OPTIONS", "/mcp", ASKED)).status == 204
    for token in (None, "wrong", front.all):
        more = [] if token is None else [("authorization", f"Bearer {token}")]
        for _ in range(2):
            response = await send(front.app, "POST", "/mcp", [*headers, FROM_PAGE, *more], body)
            assert response.status == (200 if token == front.all else 401)
            assert response.headers["access-control-allow-origin"] == PAGE
    response = await send(front.app, "GET", "/.well-known/oauth-protected-resource/mcp", [HOST, FROM_PAGE])
    assert response.status == 200
    assert response.headers["access-control-allow-origin"] == PAGE


def test_the_shortcut_of_the_wire_names_the_origin() -> None:
    request = raw(modern("tools/call", ADD), FROM_PAGE)
    with serving(lambda: make_app(with_settings={"allowed_origins": (PAGE,)})) as live, Client(live.port) as client:
        for _ in range(4):
            client.send(request)
            status, headers, _ = client.answer()
            assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, PAGE, "origin")
        assert live.app.fast_path.hits == 3
        client.send(raw(modern("tools/call", ADD)))
        assert "access-control-allow-origin" not in client.answer()[1]
