"""Workers as real processes, on a server of their own: RQ's keys belong to no project."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.settings.sections.connections import Connection
from coordinator.store import Store, keys
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.support.cluster import leads
from tests.support.fleets import RunningCommand
from tests.support.servers import DEFAULT_KIND, Server, server_of
from tests.support.stateful import stateful
from tests.workers.bench import Bench
from tests.workers.pair import Pair

Start = Callable[..., RunningCommand]
MakePair = Callable[..., Awaitable[Pair]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_of(DEFAULT_KIND.server, tmp_path_factory.mktemp("queue")) as server:
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[Redis]:
    """Of the server with RQ's keys."""
    server.start()
    with redis_client(parse(server.url), keys.QUEUE, retry=Retry(NoBackoff(), 0)) as client:
        yield client
        if isinstance(server, EmbeddedCluster):
            for node in filter(leads, server.nodes):
                with node.client() as one:
                    one.flushall()
        client.flushall()


@pytest.fixture
def start(server: Server, connection: Redis, tmp_path: Path) -> Iterator[Start]:
    """Starts ``fleet worker`` and returns it when it is ready."""
    running: list[RunningCommand] = []

    def begin(**env: str) -> RunningCommand:
        running.append(
            RunningCommand(
                tmp_path / f"output-{len(running)}",
                "worker",
                *("--data-dir", str(tmp_path / "data")),
                **{"FLEET_REDIS_URL": server.url, "FLEET_METRICS_DIR": str(tmp_path / "metrics"), **env},
            )
        )
        running[-1].wait_ready()
        return running[-1]

    yield begin
    for command in running:
        command.clean_up()


@pytest.fixture
async def store(server: Server, connection: object) -> AsyncIterator[Store]:
    store = Store(server.url, timeout_ms=5000)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def bench(store: Store) -> AsyncIterator[Bench]:
    bench = Bench(store)
    yield bench
    await bench.stop()


@pytest.fixture
async def make_pair(store: Store, project: str) -> AsyncIterator[MakePair]:
    """Makes two workers that call a server which keeps states."""
    pairs: list[Pair] = []

    async def make(connection: Connection | None = None, queue_url: str = "", **gateway: Any) -> Pair:
        pairs.append(Pair(store, project, connection or stateful(), queue_url, gateway))
        for worker in pairs[-1].workers:
            await worker.start()
        return pairs[-1]

    yield make
    for pair in pairs:
        await pair.lab.close()
        for worker in pair.workers:
            await worker.stop()
