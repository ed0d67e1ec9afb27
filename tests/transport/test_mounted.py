"""Applications below a path of their own: the console, and here one that does what a test says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.settings.sections.console import Console
from coordinator.transport.http.replies import ClientDisconnected, Receive, Refused, Scope, Send, reply
from tests.transport.rig import make_app, send

pytestmark = pytest.mark.anyio

HOST = ("host", "127.0.0.1:8420")


class Page:
    """Answers by the last part of the path."""

    headers = ((b"x-safe", b"1"),)

    async def serve(self, scope: Scope, receive: Receive, send: Send, head: Mapping[bytes, bytes]) -> None:
        what = scope["path"].rpartition("/")[2]
        if what == "defect":
            raise KeyError(what)
        if what == "refused":
            raise Refused(413, "too large")
        if what == "gone":
            raise ClientDisconnected
        await reply(send, 200, b"page")

    def hold(self, held: bool, seconds: float) -> None:
        pass

    async def stop(self, deadline: float = 0.0) -> None:
        pass


BOTH: list[tuple[str, list[tuple[str, str]], int]] = [
    ("page", [], 200),
    ("refused", [], 413),
    ("defect", [], 500),
    ("page", [("origin", "https://evil.example")], 403),
    ("page", [("host", "evil.example")], 400),
]
CLIENTS: list[tuple[str, list[tuple[str, str]], int]] = [
    ("page", [("content-encoding", "gzip")], 415),
    ("page", [("x-long", "x" * 20_000)], 431),
]


@pytest.mark.parametrize(
    ("what", "headers", "status", "admin"),
    [*((*one, False) for one in BOTH + CLIENTS), *((*one, True) for one in BOTH)],
)
async def test_all_answers_below_its_path_carry_its_headers(
    what: str, headers: list[tuple[str, str]], status: int, admin: bool
) -> None:
    app = make_app()
    app.mount("/page", Page(), admin)
    got = await send(app.admin if admin else app, "GET", f"/page/{what}", [HOST, *headers])  # type: ignore[arg-type]
    assert got.status == status
    assert got.headers["x-safe"] == "1"


async def test_other_paths_do_not() -> None:
    app = make_app()
    app.mount("/page", Page())
    for path in ("/", "/pages", "/mcp"):
        assert "x-safe" not in (await send(app, "GET", path, [HOST])).headers


async def test_pages_of_allowed_origins_may_not_read_it() -> None:
    origin = "https://inspector.example"
    app = make_app(with_settings={"allowed_origins": (origin,)})
    app.mount("/page", Page())
    got = await send(app, "GET", "/page", [HOST, ("origin", origin)])
    assert (got.status, "access-control-allow-origin" in got.headers) == (200, False)
    assert "access-control-allow-origin" in (await send(app, "GET", "/mcp", [HOST, ("origin", origin)])).headers


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize("host", ["127.0.0.1:8420", "console.example"])
async def test_the_public_address_is_served_also_behind_a_proxy_that_replaces_the_host(host: str, admin: bool) -> None:
    app = make_app(with_settings={"console": Console(public_url="https://console.example")})
    app.mount("/page", Page(), admin)
    head = [("host", host), ("origin", "https://console.example")]
    got = await send(app.admin if admin else app, "POST", "/page", head)  # type: ignore[arg-type]
    assert got.status == 200
