"""A fleet with two front-ends for all tests of this folder, and a project of its own for each."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.client import Fleet
from tests.client.scripted import Scripted
from tests.support.fleets import RunningFleet


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "2", "--workers", "1") as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture
def named() -> str:
    """The name of a project that is the test's own."""
    return f"client-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def fleet(running: RunningFleet, named: str) -> AsyncIterator[Fleet]:
    async with Fleet(running.state.base_url, project=named) as opened:
        yield opened


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    async with Scripted() as server:
        yield server
