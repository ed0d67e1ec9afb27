"""A fleet with two front-ends and a browser for all tests of this folder, and a project of its own for each.

Any message in the browser's console, failed request, or answer with an error fails the test, unless it says that it
expects some (``mishaps``).
"""

from __future__ import annotations

import json
import uuid
from asyncio import _get_running_loop, _set_running_loop  # private: other loops have no other way
from collections.abc import Callable, Generator, Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Request, Response, expect

from coordinator.client import SyncFleet
from tests.console.asking import CONFIG
from tests.console.authority import CLIENT, SECRET, Authority
from tests.console.visitors import PEOPLE, add_token, link
from tests.support.browser import WAIT_MS, chromium
from tests.support.fleets import RunningFleet


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    settings = folder / "fleet.yaml"
    settings.write_text(json.dumps(CONFIG))
    options = ("--port", "0", "--frontends", "2", "--workers", "1", "--config", str(settings))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """In place of one for each file, which takes a second of CPU time to start."""
    with chromium(tmp_path_factory.mktemp("browser")) as browser:
        loop = _get_running_loop()
        yield browser
        _set_running_loop(loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hides Playwright's event loop from tests without a browser, which may run one of their own.

    It counts as running in the thread of the tests although it rests.
    """
    loop = None if "browser" in getattr(item, "fixturenames", ()) else _get_running_loop()
    if loop is not None:
        _set_running_loop(None)
    try:
        return (yield)
    finally:
        if loop is not None and not loop.is_closed():
            _set_running_loop(loop)


@pytest.fixture(scope="package")
def authorities() -> Iterator[Authority]:
    with Authority() as authority:
        yield authority


@pytest.fixture
def authority(authorities: Authority) -> Authority:
    """The authorization server of the fleet that lets nobody in without a token."""
    authorities.reset()
    return authorities


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory, authorities: Authority) -> Iterator[RunningFleet]:
    """A fleet that lets nobody in without a token. Its token file has those of ``visitors.PEOPLE``."""
    folder = tmp_path_factory.mktemp("guarded")
    verifier = f"{{type: jwks, jwks_uri: {authorities.url}/jwks, issuer: {authorities.url}, algorithms: [EdDSA]}}"
    oauth = f"{{client_id: {CLIENT}, client_secret_env: CLIENT_SECRET, scopes: [openid, items]}}"
    config = folder / "fleet.yaml"
    config.write_text(
        f"auth: {{mode: required, tokens: tokens.yaml, verifier: {verifier}}}\nconsole: {{oauth: {oauth}}}\n"
        "allowed_hosts: [127.0.0.1, fleet.example]\n"
    )
    for name in PEOPLE:
        add_token(folder / "tokens.yaml", name)
    environment = {"FLEET_CONFIG": str(config), "CLIENT_SECRET": SECRET, "FLEET_LOG_LEVEL": "debug"}
    arguments = ("--port", "0", "--frontends", "2", "--workers", "1")
    with RunningFleet(folder / "data", *arguments, **environment) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture
def named() -> str:
    """The name of a project that is the test's own."""
    return f"console-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def fleet(running: RunningFleet, named: str) -> Iterator[SyncFleet]:
    """A client of that project."""
    with SyncFleet(running.state.base_url, project=named, agent="orchestrator") as opened:
        yield opened


@pytest.fixture
def mishaps() -> list[str]:
    """What has gone wrong in pages; a test that expects some clears it."""
    return []


@pytest.fixture
def watch(mishaps: list[str]) -> Callable[[Page], Page]:
    """Notes what goes wrong in a page."""

    def watched(page: Page) -> Page:
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: mishaps.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: mishaps.append(f"error: {error}"))
        page.on("response", answered)
        page.on("requestfailed", failed)
        return page

    def answered(answer: Response) -> None:
        if answer.status >= 400:
            mishaps.append(f"{answer.status} {answer.url}")

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a page that is left ends its stream and its reads
            mishaps.append(f"failed: {request.url}")

    return watched


@pytest.fixture
def console(
    running: RunningFleet, named: str, browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]
) -> Iterator[Callable[..., Page]]:
    """Opens a page of the project: ``console("board")``, ``console("item/<id>")``, with options of a new context.

    ``who``: the name of somebody who signs in first, as an operator.
    """
    contexts = []

    def opened(path: str, who: str = "", **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = watch(context.new_page())
        address = f"/console/p/{named}/{path}"
        page.goto(running.state.base_url + (f"{link(running, who)}&next={quote(address)}" if who else address))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not mishaps


@pytest.fixture
def person(console: Callable[..., Page]) -> Callable[..., Page]:
    """Opens a page of the project as a person of this name, who operates the fleet."""

    def opened(path: str, name: str = "ada", **options: object) -> Page:
        page = console(path, name, **options)
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        return page

    return opened
