"""A hundred equal concurrent calls over four front-end processes: one effect, and equal answers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import anyio.to_thread
import msgspec
import pytest

from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.audit import audit
from tests.items.calls import (
    Prepare,
    advance,
    claim,
    complete_items,
    complete_tree,
    create,
    create_tree,
    delete,
    delete_notes,
    events,
    events_of_one,
    keyed,
    link,
    unlink_all,
    update,
    write_notes,
)
from tests.items.client import Client, Json, fresh_id
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, call_body

pytestmark = pytest.mark.anyio

FRONT_ENDS, AT_ONCE = 4, 100
LONG_SECONDS = 60.0
START_SECONDS = 150.0
"""Time for five interpreters to start on a busy machine."""
CALLS = (create, update, delete, link, unlink_all, advance, claim, write_notes, delete_notes, create_tree,
         complete_tree, complete_items)  # fmt: skip


class Answer(NamedTuple):
    """The outcome of a call."""

    process: str
    """Names the front-end: its request ids begin with it."""
    body: bytes


class Line:
    """One keep-alive connection, so to one front-end."""

    def __init__(self, port: int) -> None:
        self._http = Http(port, timeout=LONG_SECONDS)
        self.process = self.ask("warm-up", call_body("get_next_item", {})).process

    def ask(self, project: str, body: bytes) -> Answer:
        connection = self._http.connection
        connection.request("POST", f"/p/{project}/mcp/items", body, MCP_HEADERS)
        response = connection.getresponse()
        return Answer((response.getheader("x-request-id") or "").partition("-")[0], response.read())

    def insist(self, project: str, body: bytes) -> Answer:
        """As clients do: retries a shed or timed out call with the same request id."""
        end = time.monotonic() + LONG_SECONDS
        while True:
            answer = self.ask(project, body)
            error = msgspec.json.decode(answer.body)["result"]["structuredContent"].get("error")
            if error is None or error["kind"] == "permanent" or time.monotonic() > end:
                return answer

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a separate store."""
    server = EmbeddedServer(tmp_path_factory.mktemp("repeated") / "store", fsync="everysec")
    yield server.start()
    server.stop()


@pytest.fixture(scope="module")
def lines(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Line]]:
    """A hundred connections, the same number to each front-end."""
    folder = tmp_path_factory.mktemp("front-ends")
    arguments = ("--port", "0", "--frontends", str(FRONT_ENDS), "--data-dir", str(folder / "data"))
    with ExitStack() as stack:
        command = stack.enter_context(RunningCommand(folder, "serve", *arguments, FLEET_REDIS_URL=server))
        port = int(command.wait_ready(START_SECONDS).rsplit(":", 1)[1])
        found: list[Line] = []
        wanted = Counter[str]()
        end = time.monotonic() + LONG_SECONDS
        while len(found) < AT_ONCE:  # the kernel distributes them
            assert time.monotonic() < end, f"connections by process: {wanted}"
            line = Line(port)
            if wanted[line.process] < AT_ONCE // FRONT_ENDS:
                wanted[line.process] += 1
                found.append(line)
                stack.callback(line.close)
            else:
                line.close()
        yield found


@pytest.fixture
async def pair(server: str) -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two separate projects, directly on the store."""
    store = Store(server, timeout_ms=10_000)
    await store.open()
    name = f"repeated-{fresh_id()[:13]}"
    yield Client(store, name), Client(store, f"{name}-2")
    await store.close()


def all_at_once(lines: list[Line], project: str, body: bytes) -> list[Answer]:
    """The answers to one call made concurrently on every line."""
    start = threading.Barrier(len(lines))

    def ask(line: Line) -> Answer:
        start.wait(LONG_SECONDS)
        return line.insist(project, body)

    with ThreadPoolExecutor(len(lines)) as pool:
        return list(pool.map(ask, lines))


@pytest.mark.parametrize("prepare", CALLS, ids=lambda call: call.__name__)
async def test_a_hundred_equal_calls_have_one_effect_and_one_answer(
    lines: list[Line], pair: tuple[Client, Client], prepare: Prepare
) -> None:
    tools, elsewhere = pair
    prepared = await prepare(tools)
    body = call_body(prepared[0], keyed(prepared, fresh_id()))
    before = await events(tools)
    answers = await anyio.to_thread.run_sync(all_at_once, lines, tools.project, body)
    assert Counter(answer.process for answer in answers) == dict.fromkeys(
        {line.process for line in lines}, AT_ONCE // FRONT_ENDS
    )
    assert len({answer.process for answer in answers}) == FRONT_ENDS
    assert len({answer.body for answer in answers}) == 1
    result: Json = msgspec.json.decode(answers[0].body)["result"]
    assert not result["isError"], result
    assert await events(tools) - before == await events_of_one(elsewhere, prepare) > 0
    assert not (await audit(tools.store, tools.project)).differences


async def test_every_changing_tool_is_among_them(pair: tuple[Client, Client]) -> None:
    tools, _ = pair
    assert {(await prepare(tools))[0] for prepare in CALLS} == tools.changing
    assert len(tools.changing) == 7
