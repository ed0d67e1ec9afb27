"""A worker of the client library whose claims last two seconds, as a program: URL PROJECT FILE, and async or sync.

It writes the id of each item that it begins into the file, and ends none whose title is ``LONG``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from coordinator.client import Fleet, Job, SyncFleet
from coordinator.client.sync import SyncJob
from tests.support.stopped import LONG


def main(url: str, project: str, begun: str, kind: str) -> None:
    def begin(job: Job | SyncJob) -> bool:
        with Path(begun).open("a") as file:
            print(job.id, file=file)
        return job.title == LONG

    async def handle(job: Job) -> None:
        if begin(job):
            await asyncio.Event().wait()
        await job.done()

    def handle_in_thread(job: SyncJob) -> None:
        if begin(job):
            while True:
                job.check()
                time.sleep(0.05)
        job.done()

    async def work() -> None:
        async with Fleet(url, project=project) as fleet:
            await fleet.work(handle, ttl=2)

    if kind == "async":
        asyncio.run(work())
    else:
        with SyncFleet(url, project=project) as fleet:
            fleet.work(handle_in_thread, ttl=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
