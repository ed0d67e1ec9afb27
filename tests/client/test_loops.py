"""Workers in the event loops that there are, on fleets with bearer tokens."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coordinator.client import Denied, Fleet, Job
from tests.client.backlog import add, held
from tests.support.fleets import RunningFleet, fleet_command


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL of a fleet that lets in nobody without a token, and a token."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens.yaml"
    made = fleet_command("token", "create", "crew", "--permission", "items", "--file", str(tokens))
    assert made.returncode == 0, made.stderr
    env = {"FLEET_AUTH_MODE": "required", "FLEET_AUTH_TOKENS": str(tokens)}
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0", **env) as fleet:
        fleet.wait_ready()
        yield fleet.state.base_url, made.stdout.strip().splitlines()[-1].split()[-1]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_worker_stops_on_a_signal_and_slots_are_those_of_the_token(
    guarded: tuple[str, str], run: Callable[[Any], None]
) -> None:
    url, token = guarded
    agents: set[str] = set()

    async def main() -> None:
        async with Fleet(url, token, slots=2) as fleet:
            await add(fleet, *"abcd")
            both = asyncio.Event()

            async def handle(job: Job) -> None:
                agents.add(job.agent)
                if len(agents) == 2:
                    both.set()
                    os.kill(os.getpid(), signal.SIGTERM)
                await both.wait()
                await job.note("by", job.agent)
                await job.done()

            async with asyncio.timeout(60):
                await fleet.work(handler=handle, ttl=2)
        async with Fleet(url, token, agent="crew") as fleet:
            assert await held(fleet) == 0
            async with await anext(fleet.jobs(wait=False)) as job:
                assert job.agent == "crew"
                await job.done()

    run(main())
    assert len(agents) == 2
    assert all(agent.startswith("crew/") for agent in agents)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(("token", "agent"), [("", None), ("wrong", None), (None, "other")])
def test_a_wrong_credential_ends_the_loop(guarded: tuple[str, str], token: str | None, agent: str | None) -> None:
    url, good = guarded

    async def main() -> None:
        async with Fleet(url, good if token is None else token, agent=agent) as fleet:
            await anext(fleet.jobs())

    with pytest.raises(Denied):
        asyncio.run(main())
