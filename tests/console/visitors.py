"""Visitors of a console without a browser: they send exactly the headers that they are told."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from coordinator.console.signin.tickets import make_ticket
from coordinator.identity.callers import token_edit
from coordinator.identity.callers.token_file import TokenEntry
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.embedded.server import find_running
from coordinator.transport.rounds.sealing import Seals
from tests.support.fleets import RunningFleet

R = TypeVar("R")

NAVIGATION = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""What a browser says when somebody types an address."""
SCRIPT = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
"""What it says when a script of the page asks."""
CHANGE = {**SCRIPT, "content-type": "application/json", "fleet-console": "1"}
"""What a script of the page sends with a change."""


PEOPLE: Mapping[str, Mapping[str, Any]] = {
    "operator": {"kind": "user", "roles": ["human"], "permissions": ["*", "operate"]},
    "person": {"kind": "user", "roles": ["human"], "permissions": ["*"]},
    "reader": {"kind": "user", "roles": ["human"], "permissions": ["*.read"]},
    "reader of items": {"kind": "user", "permissions": ["items.read"]},
    "nobody": {"kind": "user", "permissions": []},
    "without a role": {"kind": "user", "permissions": ["*", "operate"]},
    "person without budgets": {"kind": "user", "roles": ["human"], "permissions": ["items"]},
    "stranger": {"kind": "user", "roles": ["human"], "permissions": ["*", "operate"], "projects": ["elsewhere"]},
    "agent": {"kind": "subagent", "roles": ["human"], "permissions": ["*", "operate"]},
    # Each of these is removed by a test.
    "brief": {"kind": "user", "roles": ["human"], "permissions": ["*"]},
    "briefer": {"kind": "user", "roles": ["human"], "permissions": ["*"]},
}
"""Whose tokens a guarded fleet has."""


def token_of(name: str) -> str:
    """The token of one of them."""
    return f"canary-{name.replace(' ', '-')}-0123456789abcdef"


def add_token(file: Path, name: str) -> None:
    """Adds the token of one of them to a token file."""
    digest = sha256(token_of(name).encode()).hexdigest()
    token_edit.add(file, msgspec.convert({"id": name, "sha256": digest, **PEOPLE[name]}, TokenEntry))


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Visitor:
    """Keeps its cookies, as a browser does."""

    def __init__(self, port: int, cookies: Mapping[str, str] | None = None) -> None:
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.cookies = dict(cookies or {})

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Got:
        """Sends a request."""
        given = {"host": self.host, **headers}
        if self.cookies:
            given.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, given)
            answer = connection.getresponse()
            got = Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        for text in answer.headers.get_all("set-cookie") or ():
            name, _, value = text.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in text:
                del self.cookies[name]
        return got

    def open(self, path: str) -> Got:
        """Types an address."""
        return self.ask("GET", path, NAVIGATION)

    def fill_in(self, path: str, **fields: str) -> Got:
        """Sends a form of the console."""
        kind = "application/x-www-form-urlencoded"
        told = {**SCRIPT, "sec-fetch-mode": "navigate", "content-type": kind, "origin": f"http://{self.host}"}
        return self.ask("POST", path, told, urlencode(fields).encode())

    def change(self, path: str, value: object) -> Got:
        """Has a script of the console send a change."""
        return self.ask("POST", path, CHANGE, msgspec.json.encode(value))


def of_store(fleet: RunningFleet, act: Callable[[Store], Coroutine[Any, Any, R]], url: str = "") -> R:
    """Runs ``act`` with the store of a fleet; in a thread of its own, as Playwright has a loop in that of tests.

    Args:
        url: that of the store; empty: it is the fleet's own one.
    """

    async def run() -> R:
        found = url or find_running(fleet.data_dir)
        assert found is not None
        store = Store(found, timeout_ms=5000)
        await store.open()
        try:
            return await act(store)
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


def link(fleet: RunningFleet, name: str = "ada", url: str = "") -> str:
    """The path of a link such as ``fleet console`` prints."""
    return of_store(fleet, lambda store: make_ticket(store, Seals(store, Settings()), name), url)


def signed_in(fleet: RunningFleet, name: str) -> Visitor:
    """Somebody who has signed in by a token."""
    visitor = Visitor(fleet.port)
    assert visitor.fill_in("/console/signin", token=token_of(name)).status == 303
    return visitor


def operator(fleet: RunningFleet, name: str = "ada") -> Visitor:
    """Somebody who has signed in by a link."""
    visitor = Visitor(fleet.port)
    assert visitor.open(link(fleet, name)).status == 303
    return visitor
