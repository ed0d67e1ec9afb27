"""Pages in a real browser call a front: the Inspector's, and a page of the test."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.web import LocalServer, Quiet
from tests.transport.guarded import Front
from tests.transport.live import Live, serving
from tests.transport.nodejs import unpacked
from tests.transport.rig import Rig, call, legacy, make_app, modern

INSPECTOR = "@modelcontextprotocol/inspector@1.0.3"
"""The last version whose page calls servers directly; version 2 uses a proxy process."""
DIGEST = "lDHHqkkFV3bsZynM58rmP78NY2FYXcnBoQav3icfMCU+6lEPX/83pyenYyz8SNByH+V2KNWBg7GKIZ25fou16A=="
ADD = call("add", {"left": 2, "right": 3})
BROWSERS_OWN = ("host", "accept-encoding", "connection", "content-length")

FETCH = """async ([url, method, headers, body]) => {
  try {
    const answer = await fetch(url, {method, headers, body})
    return {status: answer.status, text: await answer.text(), headers: Object.fromEntries(answer.headers)}
  } catch (error) { return {failed: String(error)} }
}"""


class _Blank(Quiet, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>a page</title>")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The origin of the test's page."""
    with LocalServer(_Blank) as server:
        yield server.url


def fetch(page: Page, url: str, request: Any = None, method: str = "POST", **more: str) -> dict[str, Any]:
    """The result of a request of the page."""
    headers, body = request or ([], None)
    given = {name: value for name, value in [*headers, *more.items()] if name not in BROWSERS_OWN}
    found: dict[str, Any] = page.evaluate(FETCH, [url, method, given, body and body.decode()])
    return found


def test_an_allowed_page_calls_tools_and_reads_refusals(page: Page, site: str) -> None:
    with serving(lambda: make_app(with_settings={"allowed_origins": (site,)})) as live:
        page.goto(site)
        for make in (modern, legacy, modern, legacy):
            answer = fetch(page, live.url, make("tools/call", ADD))
            assert json.loads(answer["text"])["result"]["structuredContent"] == {"sum": 5}
            assert answer["headers"]["x-request-id"]
        assert live.app.fast_path.hits >= 2
        assert fetch(page, live.url, modern("tools/call", call("nope")))["status"] == 400
        assert fetch(page, live.url, modern("nope"))["status"] == 404
        assert fetch(page, live.url, method="GET")["status"] == 405
        assert fetch(page, live.url, method="DELETE")["status"] == 405
        assert fetch(page, live.url.replace("/mcp", "/healthz"), method="GET")["status"] == 200


def test_other_pages_are_rejected(page: Page, site: str) -> None:
    with serving(lambda: make_app(with_settings={"allowed_origins": ("https://console.example",)})) as live:
        page.goto(site)
        for request in (modern("tools/call", ADD), legacy("tools/call", ADD)):
            assert "Failed to fetch" in fetch(page, live.url, request)["failed"]
        assert live.app.fast_path.counts["hit"] == 0


def test_a_page_learns_how_to_get_a_token(page: Page, site: str, tmp_path: Path, rig: Rig) -> None:
    fronts: list[Front] = []

    def make() -> Any:
        fronts.append(Front(tmp_path, rig, origins=(site,), authorization_servers=("https://issuer.example",)))
        return fronts[0].app

    with serving(make) as live:
        page.goto(site)
        request = modern("tools/call", ADD)
        refused = fetch(page, live.url, request)
        assert refused["status"] == 401
        assert "resource_metadata=" in refused["headers"]["www-authenticate"]
        metadata = fetch(page, live.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"), method="GET")
        assert json.loads(metadata["text"])["authorization_servers"] == ["https://issuer.example"]
        for token, status in ((fronts[0].all, 200), (fronts[0].all, 200), (fronts[0].flows, 403), ("wrong", 401)):
            assert fetch(page, live.url, request, authorization=f"Bearer {token}")["status"] == status


def test_the_page_at_the_address_is_shown(page: Page) -> None:
    with serving(make_app) as live:
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.goto(live.url.removesuffix("/mcp") + "/")
        expect(page).to_have_title("Fleet coordinator")
        expect(page.locator("body")).to_contain_text(f"MCP endpoint: {live.url}")
        assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        assert [one for one in wrong if "favicon" not in one and "404" not in one] == []


@pytest.fixture(scope="module")
def inspector() -> Iterator[str]:
    """The origin of the Inspector's page."""
    files = unpacked(INSPECTOR, DIGEST) / "client" / "dist"

    class Handler(Quiet, SimpleHTTPRequestHandler):
        pass

    with LocalServer(functools.partial(Handler, directory=str(files))) as server:
        yield server.url


def test_the_inspectors_page_lists_and_calls_tools(page: Page, inspector: str) -> None:
    live: Live
    with serving(lambda: make_app(with_settings={"allowed_origins": (inspector,)})) as live:
        page.add_init_script("localStorage.setItem('lastConnectionType', 'direct')")
        page.goto(f"{inspector}/?transport=streamable-http&serverUrl={live.url}")
        page.get_by_role("button", name="Connect").click()
        page.get_by_role("button", name="List Tools").click()
        page.get_by_text("The tool add.").click()
        page.get_by_label("left").fill("39")
        page.get_by_label("right").fill("3")
        page.get_by_role("button", name="Run Tool").click()
        expect(page.get_by_text("Tool Result")).to_be_visible()
        expect(page.get_by_text("sum:").last.locator("xpath=..")).to_contain_text("42")
        assert live.app.fast_path.counts["hit"] == 1
