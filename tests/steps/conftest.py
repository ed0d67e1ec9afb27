"""A server of their own for tests of steps: RQ's keys belong to no project."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from coordinator.settings import Settings
from coordinator.settings.sections.steps import StepSettings
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from tests.steps.rig import Rig
from tests.support import leaks


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("steps"), fsync="everysec") as server:
        yield server


@pytest.fixture
def step_settings() -> StepSettings:
    """Of the rig; tests override it."""
    return StepSettings()


@pytest.fixture
async def rig(server: EmbeddedServer, step_settings: StepSettings) -> AsyncIterator[Rig]:
    """Flows and a worker named ``w1`` on an empty server; afterwards the keys are checked."""
    store = Store(server.url, timeout_ms=5000)
    await store.open()
    rig = Rig(store, Settings(steps=step_settings))
    yield rig
    await store.close()
    with redis.Redis(**parse(server.url).client_options()) as client:
        complaints = [line for project in rig.projects for line in leaks.leaked_keys(client, project)]
        client.flushall()
    assert not complaints, "\n".join(complaints)
