"""Fixtures of tests that are clients of a fleet: one with two front-ends for a folder, and a project for each test."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.client import Fleet
from tests.support.fleets import RunningFleet

SCHEMAS = {
    "reviewed": {"notes": [{"key": "verdict", "role": "review", "required": True}]},
    "planned": {"notes": [{"key": "plan", "role": "queue", "required": True, "description": "What will be done."}]},
    "proved": {"notes": [{"key": "proof", "role": "work", "required": True}]},
}


@pytest.fixture(scope="package")
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
    return f"client-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def fleet(running: RunningFleet, named: str) -> AsyncIterator[Fleet]:
    async with Fleet(running.state.base_url, project=named) as opened:
        yield opened
