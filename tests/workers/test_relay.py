"""The relay of a worker, with an invalid project name."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.store import Store, keys
from tests.support.wait import wait_until
from tests.workers.bench import Bench
from workers.rq.relay import Relay

pytestmark = pytest.mark.anyio


async def test_it_continues_after_an_invalid_project_name(bench: Bench, store: Store) -> None:
    relay = Relay(bench.steps, store)
    await store.command("RPUSH", keys.relay_wakeups.key(keys.FLEET), b"\xff", b"BAD NAME", b"default")
    await store.command("RPUSH", keys.outbox.key("default"), "fleet-steps 1-2-3")
    task = asyncio.create_task(relay.run())

    async def moved() -> bool:
        return bool(await store.command("LLEN", "fc:{RQ}:queue:fleet-steps"))

    try:
        await wait_until(moved, what="the job to be moved")
        assert not task.done()
        assert not await store.command("EXISTS", keys.relay_wakeups.key(keys.FLEET))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
