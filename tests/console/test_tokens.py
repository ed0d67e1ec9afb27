"""Signing in by a token, pasted or from an authorization server."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from coordinator.identity.callers import token_edit
from tests.console.authority import Authority
from tests.console.visitors import CHANGE, NAVIGATION, SCRIPT, Visitor, signed_in, token_of
from tests.identity.signing import Signer
from tests.support.browser import WAIT_MS
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until_sync

AGENTS = "/console/p/default/agents"
SIGN_IN = "/console/signin"


def test_without_a_session_one_is_led_to_the_page_and_back(guarded: RunningFleet) -> None:
    visitor = Visitor(guarded.port)
    led = visitor.open(f"{AGENTS}?agent=a")
    assert (led.status, led.headers["location"]) == (303, f"{SIGN_IN}?next=/console/p/default/agents%3Fagent%3Da")
    page = visitor.open(led.headers["location"])
    assert page.status == 200
    assert f'name="next" value="{AGENTS}?agent=a"' in page.text
    back = visitor.fill_in(SIGN_IN, token=f" {token_of('person')}\n", next=f"{AGENTS}?agent=a")
    assert (back.status, back.headers["location"]) == (303, f"{AGENTS}?agent=a")
    assert visitor.open(AGENTS).status == 200


def test_a_script_signs_in_with_json(guarded: RunningFleet) -> None:
    visitor = Visitor(guarded.port)
    assert visitor.change(SIGN_IN, {"token": token_of("person")}).status == 303
    assert visitor.open(AGENTS).status == 200


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"token": 1}', b"\xff", b'"' + b"x" * 100_000])
def test_malformed_bodies_are_refused(guarded: RunningFleet, body: bytes) -> None:
    assert Visitor(guarded.port).ask("POST", SIGN_IN, CHANGE, body).status in (400, 413)


def test_every_wrong_token_gets_the_same_answer(guarded: RunningFleet, authority: Authority) -> None:
    mine: dict[str, Any] = {"iss": authority.url, "aud": guarded.state.base_url}
    wrong = [
        *("x", "", "a b", "\u00e9", "x" * 9_000, "fcc_" + "x" * 60, token_of("person")[:-1], token_of("person") + "0"),
        authority.signer.token("ada", **mine | {"exp": 1}),
        authority.signer.token("ada", **mine | {"aud": "https://elsewhere.example"}),
        authority.signer.token("ada", **mine | {"iss": "https://elsewhere.example"}),
        Signer(number=1).token("ada", **mine),
    ]
    pages = {}
    for token in wrong:
        visitor = Visitor(guarded.port)
        got = visitor.fill_in(SIGN_IN, token=token)
        assert (got.status, visitor.cookies) == (401, {})
        pages[got.body] = token
    assert len(pages) == 1


def test_a_jwt_is_taken_as_it_is(guarded: RunningFleet, authority: Authority) -> None:
    visitor = Visitor(guarded.port)
    said: dict[str, Any] = {
        "iss": authority.url,
        "aud": guarded.state.base_url,
        "kind": "user",
        "permissions": ["items.read"],
    }
    assert visitor.fill_in(SIGN_IN, token=authority.signer.token("bo", **said)).status == 303
    assert 'bo</span><span class="kind">user</span>' in visitor.open(AGENTS).text


def test_a_session_ends_with_its_token(guarded: RunningFleet) -> None:
    file = Path(guarded.data_dir).with_name("tokens.yaml")
    visitor = signed_in(guarded, "brief")
    assert visitor.open(AGENTS).status == 200
    token_edit.remove(file, lambda entry: entry.id == "brief")
    wait_until_sync(lambda: visitor.ask("GET", AGENTS, SCRIPT).status == 401, 10, "the end of the session")
    wait_until_sync(lambda: visitor.open(AGENTS).status == 303, 10, "the same at the other front-end")


def test_the_authorization_server_signs_in(guarded: RunningFleet, authority: Authority) -> None:
    visitor = Visitor(guarded.port)
    back = come_back(visitor, authority)
    assert (back.status, back.headers["location"]) == (303, AGENTS)
    assert 'ada</span><span class="kind">user</span>' in visitor.open(AGENTS).text
    assert len(visitor.cookies) == 1
    asked = authority.asked[-1]
    assert asked["scope"] == "openid items"
    assert asked["resource"] == guarded.state.base_url
    assert asked["redirect_uri"] == f"{guarded.state.base_url}/console/signin/callback"
    assert asked["code_challenge_method"] == "S256"


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("back", {"state": "x"}),
        ("back", {"state": None}),
        ("back", {"iss": "https://elsewhere.example"}),
        ("back", {"iss": None}),
        ("back", {"code": "x"}),
        ("back", {"code": None, "error": "access_denied"}),
        ("tokens", {"access_token": None}),
        ("tokens", {"access_token": "x"}),
        ("tokens", {"id_token": None}),
        ("tokens", {"id_token": "x.y.z"}),
        ("id_token", {"nonce": "x"}),
        ("id_token", {"aud": "another-client"}),
        ("person", {"aud": "https://elsewhere.example"}),
        ("person", {"iss": "https://elsewhere.example"}),
    ],
)
def test_what_does_not_fit_signs_nobody_in(
    guarded: RunningFleet, authority: Authority, where: str, change: dict[str, Any]
) -> None:
    getattr(authority, where).update(change)
    visitor = Visitor(guarded.port)
    back = come_back(visitor, authority)
    assert back.status == 401
    assert visitor.cookies == {}
    assert visitor.open(AGENTS).status == 303


def test_an_attempt_is_good_once_and_in_its_browser(guarded: RunningFleet, authority: Authority) -> None:
    visitor = Visitor(guarded.port)
    path = way_back(visitor, authority)
    thief = Visitor(guarded.port)
    assert thief.ask("GET", path, NAVIGATION | {"sec-fetch-site": "cross-site"}).status == 401
    held = dict(visitor.cookies)
    assert visitor.open(path).status == 303
    assert Visitor(guarded.port, held).open(path).status == 401


def way_back(visitor: Visitor, authority: Authority) -> str:
    """Begins at the authorization server, and returns the path by which it sends the visitor back."""
    begun = visitor.open(f"{SIGN_IN}/oauth?next={AGENTS}")
    assert begun.headers["location"].startswith(f"{authority.url}/authorize?")
    assert "SameSite=Lax; Max-Age=600" in begun.headers["set-cookie"]
    parts = urlsplit(httpx2.get(begun.headers["location"]).headers["location"])
    return f"{parts.path}?{parts.query}"


def come_back(visitor: Visitor, authority: Authority) -> Any:
    return visitor.ask("GET", way_back(visitor, authority), NAVIGATION | {"sec-fetch-site": "cross-site"})


def test_from_other_machines_one_signs_in_over_https_only(guarded: RunningFleet) -> None:
    body = f"token={token_of('person')}".encode()
    form = {"host": "fleet.example", "content-type": "application/x-www-form-urlencoded"}
    plain = Visitor(guarded.port).ask("POST", SIGN_IN, form | {"origin": "http://fleet.example"}, body)
    assert (plain.status, plain.headers.get("set-cookie")) == (403, None)
    assert "Use HTTPS" in plain.text
    assert Visitor(guarded.port).ask("GET", f"{SIGN_IN}?ticket=x", {"host": "fleet.example"}).status == 403
    assert Visitor(guarded.port).ask("GET", f"{SIGN_IN}/oauth", {"host": "fleet.example"}).status == 403

    visitor = Visitor(guarded.port)
    secure = form | {"origin": "https://fleet.example", "sec-fetch-site": "same-origin"}
    got = visitor.ask("POST", SIGN_IN, secure, body)
    assert got.status == 303
    assert got.headers["set-cookie"].startswith("__Host-fleet-session-")
    assert got.headers["set-cookie"].split("; ")[1:-1] == ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"]
    assert visitor.ask("GET", AGENTS, NAVIGATION | {"host": "fleet.example"}).status == 200
    # A neighbouring host, or somebody on the way, could set a cookie without the prefix.
    ((name, value),) = visitor.cookies.items()
    visitor.cookies = {name.removeprefix("__Host-"): value}
    assert visitor.ask("GET", AGENTS, NAVIGATION | {"host": "fleet.example"}).status == 303


def test_the_page_with_a_token_in_a_browser(
    guarded: RunningFleet, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> None:
    with closing(browser.new_context()) as context:
        page = watch(context.new_page())
        page.goto(f"{guarded.state.base_url}{AGENTS}?agent=a")
        page.get_by_label("Bearer token").fill("wrong")
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("alert")).to_have_text("This token is not valid here.")
        assert [one for one in mishaps if "401" not in one] == []
        mishaps.clear()
        page.get_by_label("Bearer token").fill(token_of("reader"))
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(f"**{AGENTS}?agent=a")
        expect(page.locator(".who")).to_contain_text("reader")
    assert mishaps == []


def test_the_authorization_server_in_a_browser(
    guarded: RunningFleet, authority: Authority, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> None:
    with closing(browser.new_context()) as context:
        page = watch(context.new_page())
        page.goto(f"{guarded.state.base_url}{AGENTS}")
        page.get_by_role("link", name="Sign in at").click()
        page.wait_for_url(f"**{AGENTS}")
        expect(page.locator(".who")).to_contain_text("ada")
    assert mishaps == []


def test_a_revoked_token_ends_the_open_page(
    guarded: RunningFleet, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> None:
    file = Path(guarded.data_dir).with_name("tokens.yaml")
    with closing(browser.new_context()) as context:
        page = watch(context.new_page())
        page.goto(f"{guarded.state.base_url}{AGENTS}")
        page.get_by_label("Bearer token").fill(token_of("briefer"))
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        token_edit.remove(file, lambda entry: entry.id == "briefer")
        page.wait_for_url("**/console/signin?next=/console/p/default/agents", timeout=10_000)
    assert [one for one in mishaps if "401" not in one] == []
    mishaps.clear()


def test_what_is_typed_outlives_the_session(
    guarded: RunningFleet, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> None:
    url, other = guarded.state.base_url, signed_in(guarded, "operator")
    items = "/console/p/default/api/call/items/manage_items"
    made = other.change(items, {"operation": "create", "items": [{"title": "Long work"}]})
    item = json.loads(made.text)["result"]["items"][0]["id"]

    def sign_in(page: Page) -> None:
        page.goto(f"{url}/console/signin")
        page.get_by_label("Bearer token").fill(token_of("person"))
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url("**/console/p/**")

    with closing(browser.new_context()) as context:
        page, tab = watch(context.new_page()), watch(context.new_page())
        sign_in(page)
        page.goto(f"{url}/console/p/default/item/{item}")
        page.get_by_role("button", name="Add note").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Key").fill("plan")
        dialog.get_by_label("Text").fill("What took an hour to write")
        tab.goto(f"{url}/console/signin")
        tab.get_by_role("button", name="Sign out").click()
        with page.expect_response(lambda answer: answer.status == 401):
            other.change(items, {"operation": "update", "items": [{"id": item, "priority": "high"}]})
        dialog.get_by_role("button", name="Save note").click()
        expect(dialog.get_by_role("alert")).to_contain_text("sign in again in another tab")
        sign_in(tab)
        dialog.get_by_role("button", name="Save note").click()
        expect(page.get_by_text("What took an hour to write")).to_be_visible()
    assert [one for one in mishaps if "401" not in one] == []
    mishaps.clear()


def test_another_site_cannot_frame_the_console(guarded: RunningFleet, authority: Authority, browser: Browser) -> None:
    with closing(browser.new_context()) as context:
        page = context.new_page()
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text, timeout=WAIT_MS):
            page.goto(f"{authority.url}/frame?of={guarded.state.base_url}{SIGN_IN}")
        assert page.frames[-1].url.startswith("chrome-error:")
