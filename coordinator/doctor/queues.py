"""Checks that every queue with waiting steps has a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio

from coordinator.doctor.findings import Finding, page_of
from coordinator.steps.handoff import RQ_PREFIX
from coordinator.wording import counted

_WHAT = "steps.queues"


async def check(client: redis.asyncio.Redis) -> AsyncIterator[Finding]:
    """Compares the queues with the workers' registrations. Raises RedisError."""
    connection: Any = client
    served: set[str] = set()
    for worker in await connection.smembers(f"{RQ_PREFIX}:workers"):
        served.update((await connection.hget(worker, "queues") or b"").decode().split(","))
    served.discard("")
    deserted = False
    for queue in sorted(await connection.smembers(f"{RQ_PREFIX}:queues")):
        name = queue.decode().removeprefix(f"{RQ_PREFIX}:queue:")
        if name not in served and (waiting := await connection.llen(queue)):
            deserted = True
            said = f"{counted(waiting, 'job')} in {name}, which no worker serves"
            advice = "start a worker for that pool (steps.pools), or cancel the workflows"
            alert = "StepsStay" if served else "NoWorkers"
            yield Finding("warns" if served else "fails", _WHAT, said, advice, alert, page_of(alert))
    if not deserted:
        yield Finding("ok", _WHAT, "a worker serves each queue that has jobs")
