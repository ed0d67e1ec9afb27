"""A fleet with two front-ends for all tests of this folder, and a project of its own for each."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from coordinator.client import Fleet
from coordinator.runner.template import template
from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.model import Model
from tests.support.fleets import RunningFleet

SCHEMAS = {
    "reviewed": {"notes": [{"key": "verdict", "role": "review", "required": True}]},
    "proved": {"notes": [{"key": "proof", "role": "work", "required": True}]},
}


@pytest.fixture(scope="session", autouse=True)
def no_template_left() -> Iterator[None]:
    yield
    template.close()


@pytest.fixture
def model() -> Iterator[Model]:
    """A stand-in for the models of real agents."""
    with Model() as model:
        yield model


@pytest.fixture
def real_bench(tmp_path: Path, model: Model) -> Bench:
    """Runs real agents, with the stand-in."""
    bench = Bench(tmp_path)
    bench.place.environment |= real_agents.environment(tmp_path / "home", model)
    return bench


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    config = folder / "fleet.yaml"
    config.write_text(json.dumps({"work_item_schemas": SCHEMAS, "attempts": {"backoff_seconds": 0}}))
    options = ("--port", "0", "--frontends", "2", "--workers", "1", "--config", str(config))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture
def named() -> str:
    """The name of a project that is the test's own."""
    return f"runner-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def fleet(running: RunningFleet, named: str) -> AsyncIterator[Fleet]:
    async with Fleet(running.state.base_url, project=named) as opened:
        yield opened
