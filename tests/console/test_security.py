"""What visitors may not do: every route and every change, for each kind of visitor, over HTTP."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from coordinator.client import SyncFleet
from coordinator.console.acts.operate import OPERATIONS
from coordinator.console.answers import CONTENT_SECURITY_POLICY
from coordinator.console.view import View, path_of
from coordinator.console.views import VIEWS
from coordinator.operations.calls import CALLS
from tests.console.authority import Authority
from tests.console.items import claim, create
from tests.console.visitors import CHANGE, NAVIGATION, PEOPLE, SCRIPT, Got, Visitor, operator, signed_in, token_of
from tests.support.fleets import MCP_HEADERS, RunningFleet, call_body
from tests.support.wait import wait_until_sync

ID = "00000000-0000-4000-8000-000000000000"
PAGES = [(view, region) for view in VIEWS.values() for region in ("", *view.regions)]
NAMES = [f"{view.name}{f'/~{region}' if region else ''}" for view, region in PAGES]
CHANGES = [
    *(f"call/{toolset}/{tool}" for toolset, tools in CALLS.items() for tool in tools),
    *(f"operate/{name}" for name in OPERATIONS),
]
SIGNED_OUT = ("no cookie", "a forged cookie", "an expired session")
CREATE = {"operation": "create", "items": [{"title": "made in the console"}]}


@pytest.fixture(scope="module")
def visitors(guarded: RunningFleet, authorities: Authority) -> dict[str, Visitor]:
    """By what they are, each with a session of its own where they have one."""
    found = {name: signed_in(guarded, name) for name in PEOPLE if not name.startswith("brief")}
    cookie = next(iter(found["person"].cookies.items()))
    for name in SIGNED_OUT:
        found[name] = Visitor(guarded.port)
    found["a forged cookie"].cookies = {cookie[0]: cookie[1][:-4] + "AAAA"}
    # A minute of leeway is for clocks that differ.
    said: dict[str, Any] = {"iss": authorities.url, "aud": guarded.state.base_url, "kind": "user"}
    brief = authorities.signer.token("ada", exp=int(time.time()) - 57, permissions=["*"], **said)
    assert found["an expired session"].fill_in("/console/signin", token=brief).status == 303
    held = dict(found["an expired session"].cookies)
    expired = found["an expired session"]
    wait_until_sync(lambda: expired.open("/console/p/default/agents").status == 303, what="the session's end")
    expired.cookies = held
    return found


def path(view: View, region: str, project: str) -> str:
    page = path_of(view.name, project if view.of_project else "", ID if view.takes_id else "")
    return page + (f"/~{region}" if region else "")


@pytest.mark.parametrize(("view", "region"), PAGES, ids=NAMES)
def test_who_may_read(visitors: dict[str, Visitor], view: View, region: str) -> None:
    here = path(view, region, "default")
    for name in SIGNED_OUT:
        led = visitors[name].open(here)
        assert (led.status, led.headers["location"].partition("?")[0]) == (303, "/console/signin"), name
        assert visitors[name].ask("GET", here, SCRIPT).status == 401, name
    for name in ("operator", "person", "reader", "agent", "without a role"):
        assert visitors[name].open(here).status in (200, 404), name
    if view.needs or view.of_fleet:
        assert visitors["nobody"].open(here).status == 403
    if view.of_fleet:
        refused = visitors["reader of items"].ask("GET", here, SCRIPT)
        assert (refused.status, b"'*.read' or 'operate'" in refused.body) == (403, True)
    if view.of_project:
        assert visitors["stranger"].open(here).status == 403
        assert visitors["stranger"].open(path(view, region, "elsewhere")).status in (200, 404)


def test_system_is_for_who_may_see_the_fleet(visitors: dict[str, Visitor]) -> None:
    """It names hosts, processes and the store."""
    for name, status in {"operator": 200, "reader": 200, "reader of items": 403, "nobody": 403}.items():
        assert visitors[name].open("/console/system").status == status, name
        assert visitors[name].ask("GET", "/console/system/~fronts", SCRIPT).status == status, name


def test_lists_say_who_holds_what_to_those_who_may_see_it(
    visitors: dict[str, Visitor], guarded: RunningFleet, named: str
) -> None:
    """As ``get_context`` of agents does; that of an item tells everybody who reads items."""
    with SyncFleet(guarded.state.base_url, project=named, token=token_of("without a role")) as fleet:
        (item, other) = create(fleet, "held", "waits")
        fleet.call(
            "manage_dependencies", {"operation": "create", "dependencies": [{"fromItemId": item, "toItemId": other}]}
        )
        claim(fleet, item, seconds=59)
    holder, sees, reads = "without a role/", visitors["operator"], visitors["reader of items"]
    for page in ("overview", "claims", "board", f"item/{other}"):
        here = f"/console/p/{named}/{page}"
        assert holder in sees.open(here).text, here
        assert holder not in reads.open(here).text, here
    agents = f"/console/p/{named}/agents"
    assert item in sees.open(agents).text
    assert item not in reads.open(agents).text
    assert "holds an item" in reads.open(agents).text
    assert holder in reads.open(f"/console/p/{named}/item/{item}").text


@pytest.mark.parametrize("name", SIGNED_OUT)
def test_who_may_listen(visitors: dict[str, Visitor], name: str) -> None:
    assert visitors[name].ask("GET", "/console/p/default/live", SCRIPT).status == 401
    assert visitors["stranger"].ask("GET", "/console/p/default/live", SCRIPT).status == 403


@pytest.mark.parametrize("change", CHANGES)
def test_who_may_change(visitors: dict[str, Visitor], change: str) -> None:
    """Nobody of these gets as far as the arguments, which are malformed."""
    of_project = not change.startswith("operate/") or OPERATIONS[change.partition("/")[2]].of_project
    here = f"/console/p/default/api/{change}" if of_project else f"/console/api/{change}"
    wanted = dict.fromkeys(SIGNED_OUT, 401)
    wanted |= dict.fromkeys(("reader", "nobody", "agent", "stranger"), 403)
    if change.startswith("operate/"):
        wanted["person"] = 403
    if change.startswith("call/gateway/"):
        wanted["without a role"] = 403
    for name, status in wanted.items():
        assert visitors[name].change(here, []).status == status, name
    assert visitors["operator"].change(here, []).status == 400
    assert visitors["stranger"].change(f"/console/api/{change}", []).status == 403


def test_what_is_refused_has_no_effect(guarded: RunningFleet, visitors: dict[str, Visitor], named: str) -> None:
    here = f"/console/p/{named}/api/call/items/manage_items"
    for name in (*SIGNED_OUT, "reader", "nobody", "agent", "stranger"):
        assert visitors[name].change(here, CREATE).status in (401, 403)
        assert visitors[name].change("/console/api/call/items/manage_items", CREATE).status in (401, 403)
    for name, headers in forged(Visitor(guarded.port).host).items():
        got = visitors["person"].ask("POST", here, headers, msgspec.json.encode(CREATE))
        assert got.status in (403, 421), name
    assert items_of(guarded, named) == []
    assert visitors["person"].change(here, CREATE).status == 200
    assert items_of(guarded, named) == ["made in the console"]


def forged(host: str) -> dict[str, dict[str, str]]:
    """Heads of changes that no script of the console sends."""
    bare = {"content-type": "application/json", "fleet-console": "1"}
    return {
        "another site": CHANGE | {"sec-fetch-site": "cross-site"},
        "a neighbour": CHANGE | {"sec-fetch-site": "same-site"},
        "typed": CHANGE | {"sec-fetch-site": "none"},
        "another origin": CHANGE | {"origin": "https://evil.example"},
        "another host": CHANGE | {"host": "evil.example"},
        "another host and its origin": CHANGE | {"host": "evil.example", "origin": "http://evil.example"},
        "an old browser elsewhere": bare | {"origin": "http://evil.example"},
        "an old browser that does not say": bare,
        "a sandbox": bare | {"origin": "null"},
        "another port": bare | {"origin": "http://127.0.0.1:1"},
        "text": CHANGE | {"content-type": "text/plain"},
        "a form": CHANGE | {"content-type": "application/x-www-form-urlencoded"},
        "no type": {name: value for name, value in CHANGE.items() if name != "content-type"},
        "no mark": {name: value for name, value in CHANGE.items() if name != "fleet-console"},
        "another mark": CHANGE | {"fleet-console": "0"},
    }


def items_of(fleet: RunningFleet, project: str) -> list[str]:
    with SyncFleet(fleet.state.base_url, token_of("operator"), project) as client:
        return [str(one["title"]) for one in client.call("query_items", {"operation": "search"})["items"]]


def test_old_browsers_change_things_too(guarded: RunningFleet, visitors: dict[str, Visitor], named: str) -> None:
    head = {"content-type": "application/json", "fleet-console": "1", "origin": f"http://127.0.0.1:{guarded.port}"}
    here = f"/console/p/{named}/api/call/items/manage_items"
    assert visitors["person"].ask("POST", here, head, msgspec.json.encode(CREATE)).status == 200


def test_a_cookie_opens_nothing_but_the_console(guarded: RunningFleet, visitors: dict[str, Visitor]) -> None:
    body = call_body("manage_items", CREATE)
    for where in ("/mcp", "/mcp/items", "/p/default/mcp/items"):
        assert visitors["operator"].ask("POST", where, MCP_HEADERS, body).status == 401
    assert visitors["operator"].ask("GET", "/feed/default", {}).status == 401


def test_a_bearer_token_opens_nothing_of_the_console(guarded: RunningFleet) -> None:
    visitor = Visitor(guarded.port)
    bearer = {"authorization": f"Bearer {token_of('operator')}"}
    assert visitor.ask("GET", "/console/p/default/agents", NAVIGATION | bearer).status == 303
    assert visitor.ask("POST", "/console/p/default/api/call/items/manage_items", CHANGE | bearer, b"{}").status == 401


def answers(fleet: RunningFleet, visitor: Visitor) -> Iterator[tuple[str, Got]]:
    """An answer of each kind below /console, errors too."""
    page = "/console/p/default/agents"
    style = visitor.open(page).text.partition('href="/console/static/')[2].partition('"')[0]
    for method, where, head in (
        ("GET", "/console", NAVIGATION),
        ("GET", page, NAVIGATION),
        ("HEAD", page, NAVIGATION),
        ("GET", f"{page}/~agents", SCRIPT),
        ("GET", f"/console/static/{style}", SCRIPT),
        ("GET", "/console/static/none.js", SCRIPT),
        ("GET", "/console/nothing", NAVIGATION),
        ("GET", "/console/p/Not-A-Project/agents", NAVIGATION),
        ("GET", "/console/p/default/live?after=x", SCRIPT),
        ("GET", "/console/signin", NAVIGATION),
        ("GET", "/console/signin?ticket=x", NAVIGATION),
        ("GET", "/console/signin/callback?state=x", NAVIGATION),
        ("GET", "/console/signin/out", NAVIGATION),
        ("POST", "/console/signin", NAVIGATION),
        ("PUT", page, CHANGE),
        ("POST", "/console/p/default/api/call/items/manage_items", CHANGE),
        ("POST", "/console/p/default/api/nothing", CHANGE),
        ("GET", page, NAVIGATION | {"host": "evil.example"}),
        ("GET", page, NAVIGATION | {"origin": "https://evil.example"}),
        ("POST", page, CHANGE | {"content-encoding": "gzip"}),
        ("OPTIONS", page, {"origin": f"http://{visitor.host}", "access-control-request-method": "POST"}),
        ("GET", page, NAVIGATION | {"x-long": "x" * 20_000}),
    ):
        yield f"{method} {where} {head}", visitor.ask(method, where, head, b"{}" if method in ("POST", "PUT") else b"")
    yield "signed out", Visitor(fleet.port).open(page)


def test_every_answer_has_the_headers_that_keep_it_safe(guarded: RunningFleet, visitors: dict[str, Visitor]) -> None:
    seen = set()
    for what, got in answers(guarded, Visitor(guarded.port, visitors["operator"].cookies)):
        seen.add(got.status)
        assert got.headers["content-security-policy"] == CONTENT_SECURITY_POLICY, what
        assert got.headers["x-frame-options"] == "DENY", what
        assert got.headers["x-content-type-options"] == "nosniff", what
        assert got.headers["cross-origin-opener-policy"] == "same-origin", what
        assert got.headers["cross-origin-resource-policy"] == "same-origin", what
        assert got.headers["referrer-policy"] == "no-referrer", what
        assert "access-control-allow-origin" not in got.headers, what
        if "/static/" not in what and got.status == 200:
            assert got.headers["cache-control"] == "no-store", what
    assert seen >= {200, 303, 400, 401, 403, 404, 405, 415, 421, 431}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../app.py",
            "..%2fapp.py",
            "%2e%2e/app.py",
            "..\\app.py",
            "/etc/passwd",
            "main.js%00",
            "main.js/../../app.py",
        ),
        *("", ".", "..", "main.js/", "console.css?x", "./main.js", "%6dain.js"),
    ],
)
def test_static_paths_stay_in_their_folder(running: RunningFleet, name: str) -> None:
    visitor = Visitor(running.port)
    page = visitor.open("/console/p/default/agents").text
    folder = page.partition('href="/console/static/')[2].partition("/")[0]
    got = visitor.ask("GET", f"/console/static/{folder}/{name}", SCRIPT)
    assert got.status in (200, 404)
    assert b"import annotations" not in got.body
    assert b"root:" not in got.body
    if got.status == 200:
        assert got.headers["content-type"].startswith("text/")


def test_malformed_positions_and_parameters_are_refused(running: RunningFleet) -> None:
    chance = random.Random(7)
    visitor = Visitor(running.port)
    page = visitor.open("/console/p/default/agents").text
    known = page.partition('data-position="')[2].partition('"')[0]
    alphabet = "0123456789-:.~!*%{}[]\\\"'<>&;=+ \xe9abcXYZ_"
    texts = ["", known[:-1] + "x", known + "0" * 500, "0" * 8 + known[8:], "9" * 60, *(
        "".join(chance.choices(alphabet, k=chance.randrange(1, 80))) for _ in range(40)
    )]  # fmt: skip
    for text in texts:
        got = visitor.ask("GET", "/console/p/default/live", SCRIPT | {"last-event-id": text.strip() or "x"})
        assert got.status == 400, text
        heads = {"fleet-at": text.strip(), "fleet-have": text.strip(), "accept-encoding": text.strip()}
        assert visitor.ask("GET", "/console/p/default/agents/~agents", SCRIPT | heads).status == 200, text
        quoted = "".join(f"%{byte:02x}" for byte in f"{text}\r\n\0\x7f".encode("latin-1"))
        for query in (f"offset={quoted}", f"agent={quoted}&agent={quoted}", quoted):
            assert visitor.open(f"/console/p/default/agents?{query}").status == 200, query
        assert visitor.open(f"/console/p/{quoted}/agents").status in (200, 303, 404), text
        assert visitor.open(f"/console/p/default/flow/{quoted}").status in (200, 400, 404), text
    many = "9" * 30
    for gate in (f"{many}:1", f"1:{many}", "%D9%A1:1", "1", ":", "1:x"):
        assert "There is no such gate." in visitor.open(f"/console/p/default/approvals?show=gate:{gate}").text, gate
    assert visitor.open("/console/p/default/agents?" + "agent=x&" * 100).status == 400
    assert running.logged("a request failed") is False


def test_a_visitor_who_reads_nothing_is_cut_off_and_keeps_nobody_waiting(running: RunningFleet, named: str) -> None:
    visitor = operator(running)
    page = visitor.open(f"/console/p/{named}/agents").text
    position = page.partition('data-position="')[2].partition('"')[0]
    head = f"GET /console/p/{named}/live?after={position} HTTP/1.1\r\nhost: {visitor.host}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            slow.sendall(head)
        made = visitor.change(f"/console/p/{named}/api/call/items/manage_items", CREATE)
        assert made.status == 200
        assert "made in the console" in made.text
        assert visitor.open(f"/console/p/{named}/agents").status == 200


def test_a_person_of_some_projects_learns_of_no_others(guarded: RunningFleet, visitors: dict[str, Visitor]) -> None:
    secret = "secret-project"
    body = {"operation": "create", "items": [{"title": "secret title"}]}
    assert visitors["person"].change(f"/console/p/{secret}/api/call/items/manage_items", body).status == 200
    drained = {"name": "secret-agent", "reason": "secret reason"}
    assert visitors["operator"].change(f"/console/p/{secret}/api/operate/drain_agents", drained).status == 200
    for view, region in PAGES:
        for query in ("", "?name=secret", "?q=secret", "?text=secret"):
            here = path(view, region, "elsewhere") + query
            for ask in (visitors["stranger"].open(here), visitors["stranger"].ask("GET", here, SCRIPT)):
                assert "secret-" not in ask.text.replace(query, ""), here
                assert "secret title" not in ask.text, here
                assert "secret reason" not in ask.text, here
    assert secret in visitors["person"].open("/console/projects").text


def test_tokens_are_in_no_answer_and_no_log(guarded: RunningFleet, visitors: dict[str, Visitor]) -> None:
    for name in PEOPLE:
        Visitor(guarded.port).fill_in("/console/signin", token=token_of(name)[:-1], next="/console/p/default/agents")
    texts = [got.text for _, got in answers(guarded, Visitor(guarded.port, visitors["operator"].cookies))]
    pages = [visitors["operator"].open(path(view, region, "default")).text for view, region in PAGES]
    assert not any(scheme in text for text in pages for scheme in ("redis://", "rediss://", "unix://"))
    texts += pages
    texts += [visitors["operator"].ask("GET", where, {}).text for where in ("/metrics", "/readyz", "/")]
    for text in (*texts, guarded.stderr, guarded.stdout, str([one.cookies for one in visitors.values()])):
        assert "canary-" not in text
        assert "s3cret" not in text
        assert "ticket=v1" not in text


@pytest.mark.parametrize("view", [one for one in VIEWS.values() if one.takes_id], ids=lambda view: view.name)
def test_malformed_ids_lead_nowhere(running: RunningFleet, view: View) -> None:
    visitor = Visitor(running.port)
    for text in (" ", "\n", "\u2003", "\0", "\u2603", "x" * 600, "0" * 36, "-1", "9" * 40, ".."):
        path = f"/console/p/default/{view.name}/{quote(text, safe='')}"
        assert visitor.open(path).status in (400, 404), text
        for name in view.regions:
            assert visitor.open(f"{path}/~{name}").status in (200, 400, 404), (text, name)
