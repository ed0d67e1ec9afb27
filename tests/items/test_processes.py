"""Several worker processes, one of which is killed: every item is done once, and its claims are taken over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that drains the project."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[list[str]] = []

    async def line(self) -> list[str]:
        """Its next line of output; empty at its end."""
        assert self.process.stdout is not None
        words = (await self.process.stdout.readline()).decode().split()
        if words:
            self.said.append(words)
        return words

    async def begin(self) -> None:
        """Lets it start."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        await self.process.stdin.drain()

    async def all(self) -> None:
        while await self.line():
            pass
        await self.process.wait()

    def done(self) -> list[str]:
        return [words[1] for words in self.said if words[0] == "completed"]


async def start(url: str, project: str, agent: str) -> Worker:
    command = (sys.executable, "-m", "tests.items.drain", url, project, agent)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    return Worker(process)


async def test_items_are_done_once_although_a_worker_is_killed(tools: Client, redis_url: str) -> None:
    parent = await tools.add(role="work")
    ids = await tools.add_many(60, parentId=parent)
    workers = [await start(redis_url, tools.project, f"agent-{n}") for n in range(3)]
    victim, *others = workers
    try:
        assert [await worker.line() for worker in workers] == [["ready"]] * 3
        for worker in workers:
            await worker.begin()
        while (await victim.line())[0] != "claimed":
            pass
        victim.process.send_signal(signal.SIGKILL)
        await asyncio.gather(*(worker.all() for worker in workers))
    finally:
        for worker in workers:
            if worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()
    assert [worker.process.returncode for worker in workers] == [-signal.SIGKILL, 0, 0]
    assert all(worker.done() for worker in others)
    done = Counter(item for worker in workers for item in worker.done())
    assert max(done.values()) == 1
    unsaid = {words[1] for words in victim.said[1:]} - set(victim.done())
    assert set(ids) - set(done) <= unsaid
    assert {await tools.role(item) for item in (parent, *ids)} == {"terminal"}
    report = await audit(tools.store, tools.project)
    assert (report.items, report.differences) == (61, [])
