"""Signing in to the console, and out."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from coordinator.console.signin import tickets
from tests.console.visitors import CHANGE, NAVIGATION, SCRIPT, Visitor, link, operator
from tests.support.fleets import RunningFleet, fleet_command


def test_a_link_signs_an_operator_in(running: RunningFleet, named: str) -> None:
    done = fleet_command("console", "--data-dir", str(running.data_dir))
    base, _, path = done.stdout.strip().rpartition("/console/")
    assert (done.returncode, base) == (0, running.state.base_url), done.stderr
    visitor = Visitor(running.port)
    assert visitor.open(f"/console/{path}").headers["location"] == "/console"
    page = visitor.open(f"/console/p/{named}/agents")
    assert f'{getpass.getuser()}</span><span class="kind">user</span>' in page.text


def test_a_link_is_good_once_at_any_number_of_front_ends(running: RunningFleet) -> None:
    path = link(running)
    with ThreadPoolExecutor(8) as pool:
        visitors = [Visitor(running.port) for _ in range(8)]
        found = [got.status for got in pool.map(lambda one: one.open(path), visitors)]
    assert sorted(found) == [303] + [401] * 7
    assert sum(bool(one.cookies) for one in visitors) == 1


def test_a_link_ends(running: RunningFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "SECONDS", 0)
    visitor = Visitor(running.port)
    got = visitor.open(link(running))
    assert (got.status, visitor.cookies) == (401, {})
    assert "fleet console" in got.text


def test_what_only_looks_ahead_leaves_a_link_good(running: RunningFleet) -> None:
    path = link(running)
    visitor = Visitor(running.port)
    assert visitor.ask("GET", path, {**NAVIGATION, "sec-purpose": "prefetch;prerender"}).status == 200
    assert visitor.ask("HEAD", path, NAVIGATION).status == 200
    assert visitor.cookies == {}
    assert visitor.open(path).status == 303


@pytest.mark.parametrize("wanted", ["/console/p/default/agents?agent=a%2Fb&offset=5", "/console/p/a-b/item/1~2:3@x"])
def test_a_link_leads_to_the_page_that_was_asked_for(running: RunningFleet, wanted: str) -> None:
    got = Visitor(running.port).open(f"{link(running)}&next={quote(wanted)}")
    assert got.headers["location"] == wanted


@pytest.mark.parametrize(
    "elsewhere",
    [
        *("https://evil.example", "//evil.example", "/console//evil.example", "/\\evil.example", "/console/../mcp"),
        *("/console/%2e%2E/mcp", "/consoles", "/console/a\r\nx: y", "/mcp", "/console/signin/out", "/console/..", ""),
    ],
)
def test_a_link_leads_nowhere_else(running: RunningFleet, elsewhere: str) -> None:
    got = Visitor(running.port).open(f"{link(running)}&next={quote(elsewhere)}")
    assert got.headers["location"] == "/console"


def test_one_signs_out(running: RunningFleet) -> None:
    visitor = operator(running)
    assert "You are signed in as" in visitor.open("/console/signin").text
    assert visitor.fill_in("/console/signin/out").status == 303
    assert visitor.cookies == {}


def test_a_cookie_is_of_one_fleet_and_one_purpose(running: RunningFleet) -> None:
    got = Visitor(running.port).open(link(running))
    name, _, rest = got.headers["set-cookie"].partition("=")
    assert name.startswith("fleet-session-")
    assert rest.split("; ")[1:-1] == ["Path=/console", "HttpOnly", "SameSite=Lax"]
    assert 43_000 < int(rest.rpartition("Max-Age=")[2]) <= 43_200


def test_a_cookie_is_good_where_it_was_made_only(running: RunningFleet) -> None:
    """Browsers send it to all ports of the host name: no other listener of this name takes its value."""
    visitor = operator(running)
    ((_, value),) = visitor.cookies.items()
    other = Visitor(running.port)
    other.host = f"127.0.0.1:{running.port + 1}"
    other.open(link(running))
    ((name, own),) = other.cookies.items()
    other.cookies = {name: value}
    assert "You are signed in as" not in other.open("/console/signin").text
    other.cookies = {name: own}
    assert "You are signed in as" in other.open("/console/signin").text
    assert name not in visitor.cookies


def test_in_a_browser(running: RunningFleet, console: Callable[..., Page]) -> None:
    page = console("agents")
    expect(page.locator(".who")).to_contain_text("anonymous")
    base = running.state.base_url
    page.goto(f"{base}{link(running, 'Ada <b>')}&next={quote(page.url.removeprefix(base))}")
    expect(page.locator(".who")).to_contain_text("Ada <b>")
    page.locator(".who").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".who")).to_contain_text("anonymous")


FORGED = {
    "another site": {**CHANGE, "sec-fetch-site": "cross-site"},
    "a neighbouring host": {**CHANGE, "sec-fetch-site": "same-site"},
    "nobody": {**CHANGE, "sec-fetch-site": "none"},
    "an old browser without an origin": {"content-type": "application/json", "fleet-console": "1"},
    "another port": {"content-type": "application/json", "origin": "http://127.0.0.1:1"},
    "a sandboxed page": {"content-type": "application/json", "origin": "null"},
}


@pytest.mark.parametrize("who", FORGED)
@pytest.mark.parametrize("path", ["/console/signin/out", "/console/signin", "/console/p/default/agents", "/console"])
def test_other_sites_change_nothing(running: RunningFleet, path: str, who: str) -> None:
    visitor = operator(running)
    before = dict(visitor.cookies)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert visitor.ask(method, path, FORGED[who], b"{}").status == 403
    assert visitor.cookies == before


def test_other_sites_may_lead_here_and_read_nothing(running: RunningFleet) -> None:
    visitor = operator(running)
    path = "/console/p/default/agents"
    assert visitor.ask("GET", path, NAVIGATION | {"sec-fetch-site": "cross-site"}).status == 200
    assert visitor.ask("GET", path, SCRIPT | {"sec-fetch-site": "cross-site"}).status == 403
    framed = NAVIGATION | {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}
    assert visitor.ask("GET", path, framed).status == 403
