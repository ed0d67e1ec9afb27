"""Workers as real processes, on a server of their own: RQ's keys belong to no project."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.store import Store
from coordinator.store.address import parse
from coordinator.store.embedded import EmbeddedServer
from tests.support.fleets import RunningCommand
from tests.workers.bench import Bench

Start = Callable[..., RunningCommand]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("queue"), fsync="everysec") as server:
        yield server


@pytest.fixture
def connection(server: EmbeddedServer) -> Iterator[Redis]:
    server.start()
    with Redis(**parse(server.url).client_options(), retry=Retry(NoBackoff(), 0)) as client:
        yield client
        client.flushall()


@pytest.fixture
def start(server: EmbeddedServer, connection: Redis, tmp_path: Path) -> Iterator[Start]:
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
async def store(server: EmbeddedServer, connection: object) -> AsyncIterator[Store]:
    store = Store(server.url, timeout_ms=5000)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def bench(store: Store) -> AsyncIterator[Bench]:
    bench = Bench(store)
    yield bench
    await bench.stop()
