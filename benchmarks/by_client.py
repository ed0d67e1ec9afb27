"""Agents that complete items with the client library: a program for ``benchmarks.loop``, run in any tree.

PYTHONPATH=TREE python benchmarks/by_client.py URL TAG AGENTS      # prints how many items they have completed
"""

from __future__ import annotations

import asyncio
import sys

from coordinator.client import Fleet, Job


async def work(url: str, tag: str, agents: int) -> int:
    """Completes all items with a tag; returns their number."""
    done = 0

    async def complete(job: Job) -> None:
        nonlocal done
        await job.done()
        done += 1

    async with Fleet(url, token="", project="default", slots=agents) as fleet:
        await fleet.work(complete, tags=tag, wait=False)
    return done


if __name__ == "__main__":
    print(asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
