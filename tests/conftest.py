"""Fixtures for all tests: a real server, a store on it, a separate project, and checks for leftovers.

    redis_url   URL of the session's server
    store       an open Store, new for each test
    project     a project name unique to the test; afterwards its keys are checked and deleted
    store_kind  which server and protocol the above use
    own_server  a server for this module only
    alone       an open Store on that one, new for each test and empty
    page        a page of a real browser, new for each test (see ``support/browser.py``)

Tests marked ``every_store`` run on each of the servers and protocols that the product supports.
Async tests are marked ``anyio``. A test that stops or breaks its server starts one with
``EmbeddedServer(tmp_path)``.

Property tests use the same examples in every run, without deadlines, so that failures are reproducible, and few of
them; ``--hypothesis-profile=ci`` tries more, ``--hypothesis-profile=explore`` others.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import redis
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as properties

from coordinator.metrics import MemoryCells, Recording
from coordinator.store import Store, subscription
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.support import leaks
from tests.support.counts import recorded_in
from tests.support.sentinels import Watched, watched
from tests.support.servers import DEFAULT_KIND, KINDS, Kind, Servers, emptied
from tests.support.template import template
from tests.support.wait import NotReached, wait_until_sync
from workers.children.guard import guard
from workers.children.guard_process import OWN_SECONDS, TERM_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_SHARING = {name: order for order, name in enumerate(("console", "runner", "client"))}
"""Folders with a fleet for all their tests, in the order in which they run."""

properties.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
properties.register_profile("usual", properties.get_profile("ci"), max_examples=40)
properties.load_profile("usual")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_store: runs on every supported server and protocol")
    config.addinivalue_line("markers", "agents: runs with the real command lines that `make agents` installs")
    config.addinivalue_line("markers", "hosts: runs in the environment that `make hosts` makes")
    config.addinivalue_line("markers", "servers: runs with real servers that `make servers` installs from npm")
    config.addinivalue_line("markers", "screenshots: compares pictures of one Chromium; `make screenshots` runs it")
    config.addinivalue_line("markers", "chaos: takes minutes; `make chaos` runs it")
    # By default structlog renders exceptions with all their variables, which takes seconds each.
    *first, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*first, plain])
    # A cached logger keeps the set-up of the test that used it first, where later tests cannot capture it.
    configure = structlog.configure
    structlog.configure = lambda **given: configure(**(given | {"cache_logger_on_first_use": False}))
    # Background jobs of a shell ignore interrupts, those of nohup hangups, and so would the commands that tests end so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collects tests without collecting garbage: there is little, and thousands of tests are looked through for it."""
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_share(config: pytest.Config) -> None:
    """Imports, before all tests are collected, a share of their files that differs from those of the other workers.

    In a new checkout each worker would otherwise rewrite and compile the asserts of all files, as all collect in the
    same order.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source != pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted((config.rootpath / "tests").glob("*/test_*.py"))
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # is reported when the file is collected
            importlib.import_module(f"tests.{file.parent.name}.{file.stem}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each core, because tests wait for a third of their time; four at most, to limit memory."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(2 * cores, 4)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Runs the files with few tests first: they start processes, so they are slow and must not come last.

    The folders whose tests share a fleet come before them, one after the other, so that it ends with their last test.
    """
    if hasattr(config, "workerinput"):
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (_SHARING.get(item.path.parent.name, len(_SHARING)), sizes[item.path]))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_store"):
        metafunc.parametrize("store_kind", KINDS, ids=str, scope="session", indirect=True)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands without a data directory get an unused one."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Restores logging, which commands that run in this process set up: later tests could not capture it."""
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    yield
    if (root.handlers, root.level) != (handlers, level):
        logging.captureWarnings(False)
        root.handlers[:], root.level = handlers, level
        structlog.configure(**before)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(autouse=True)
def counts_of_its_own() -> Iterator[None]:
    """Metrics begin at 0 with each test."""
    with recorded_in(Recording(MemoryCells())):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_process_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the session if a process that it started still runs at its end."""
    session = uuid.uuid4().hex
    os.environ[leaks.SESSION_VARIABLE] = session
    yield
    template.close()
    guard.close()

    def left_behind() -> list[leaks.Process]:
        return leaks.leftover_processes(session, tmp_path_factory.getbasetemp())

    # The guard of a worker that was killed ends after what it guards.
    with contextlib.suppress(NotReached):
        wait_until_sync(lambda: not left_behind(), 2 * (OWN_SECONDS + TERM_SECONDS))
    left = left_behind()
    leaks.end(left)
    assert not left, f"processes left behind: {left}"


@pytest.fixture(scope="session")
def servers(no_process_left: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(lambda server: tmp_path_factory.mktemp(server))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def store_kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = getattr(request, "param", DEFAULT_KIND)
    return kind


@pytest.fixture(scope="session")
def redis_url(servers: Servers, store_kind: Kind) -> str:
    return servers.url(store_kind.server)


@pytest.fixture(scope="session", autouse=True)
def time_to_listen() -> Iterator[None]:
    """Gives a store's subscription as much time as its answers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subscription, "LISTEN_SECONDS", 5.0)
        yield


@pytest.fixture
async def store(redis_url: str, store_kind: Kind) -> AsyncIterator[Store]:
    # The deadline allows for a busy machine; tests of deadlines set their own.
    store = Store(redis_url, timeout_ms=5000, protocol=store_kind.protocol)
    await store.open()
    yield store
    await store.close()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server for this module only, for tests that concern all projects of a server, or need a second one."""
    with EmbeddedServer(tmp_path_factory.mktemp("own"), fsync="everysec") as server:
        yield server


@pytest.fixture
async def alone(own_server: EmbeddedServer) -> AsyncIterator[Store]:
    """An empty store on it."""
    async with emptied(own_server.url) as store:
        yield store


@pytest.fixture(scope="session")
def onlooker(redis_url: str) -> Iterator[redis.Redis]:
    """A connection for the checks after each test."""
    with redis_client(parse(redis_url)) as client:
        yield client


@pytest.fixture
def project(redis_url: str, onlooker: redis.Redis, store_kind: Kind) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    if store_kind.server == "shards":
        with redis_client(parse(redis_url), name) as client:
            complaints = leaks.leaked_keys(client, name, delete=True)
    else:
        complaints = leaks.leaked_keys(onlooker, name, delete=True)
    assert not complaints, "keys left behind:\n" + "\n".join(complaints)


@pytest.fixture
def several_projects(project: str, redis_url: str) -> Iterator[None]:
    """Of a test that also uses projects whose names are that of its own and more: they are deleted."""
    yield
    with redis_client(parse(redis_url)) as client:
        for key in client.scan_iter(match=b"fc:{%s-*" % project.encode(), count=1_000):
            client.delete(key)


@pytest.fixture
def watched_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A primary and a replica for this test only, with Sentinels."""
    with watched(tmp_path_factory.mktemp) as servers:
        yield servers


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests of a module; they are skipped if there is none."""
    from tests.support.browser import chromium  # few tests need it, and it is slow to import

    with chromium(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without cookies, storage or cache of other tests. An uncaught exception in it fails the test."""
    context = browser.new_context()
    page = context.new_page()
    uncaught: list[str] = []
    page.on("pageerror", lambda error: uncaught.append(str(error)))
    yield page
    context.close()
    assert uncaught == []
