"""Runners over two front-ends finish a graph of dependencies while everything is killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.client import Fleet
from tests.runner.chaos import VICTIMS, Chaos
from tests.support.fleets import RunningFleet

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[RunningFleet]:
    """A fleet that is the test's own."""
    with RunningFleet(tmp_path / "data", "--port", "0", "--frontends", "2", "--workers", "0") as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.mark.chaos
async def test_each_kind_of_kill(killed: RunningFleet, tmp_path: Path) -> None:
    await _survive(killed, tmp_path, runners=3, size=20, kills=len(VICTIMS), step=2)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
async def test_ten_runners(killed: RunningFleet, tmp_path: Path) -> None:
    await _survive(killed, tmp_path, runners=10, size=150, kills=8 * len(VICTIMS), step=2)


async def _survive(running: RunningFleet, directory: Path, runners: int, size: int, kills: int, step: int) -> None:
    async with Fleet(running.state.base_url, project="chaos") as fleet:
        chaos = Chaos(running, fleet, directory, runners, seed=size)
        try:
            await chaos.build(size)
            await chaos.survive(kills, step, 300.0)
        finally:
            chaos.close()
