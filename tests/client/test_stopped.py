"""Workers of the client library that stand still for longer than their claims last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.fleets import RunningFleet
from tests.support.stopped import END_SECONDS, lose_claims, program

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("async", False),
        ("sync", True),
        pytest.param("async", True, marks=pytest.mark.chaos),
        pytest.param("sync", False, marks=pytest.mark.chaos),
    ],
    ids=["async-works", "sync-waits", "async-waits", "sync-works"],
)
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.chaos)])
async def test_a_worker_that_was_stopped_goes_on(
    running: RunningFleet, named: str, tmp_path: Path, kind: str, rounds: int, waits: bool
) -> None:
    begun = tmp_path / "begun"
    with program("tests.client.worker", running.state.base_url, named, str(begun), kind) as worker:
        await lose_claims(running, named, worker.pid, begun, rounds=rounds, waits=waits)
        worker.terminate()
        assert worker.wait(END_SECONDS) == 0
