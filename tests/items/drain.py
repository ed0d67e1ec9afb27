"""One worker process of a fleet: takes items until none is left, and prints what it did.

    python -m tests.items.drain URL PROJECT AGENT

Prints ``ready``, begins on a line of input, and prints ``claimed <id>`` and ``completed <id>``.
"""

from __future__ import annotations

import asyncio
import sys

from coordinator.store import Store
from tests.items.client import Client
from tests.support.wait import wait_until


def say(*words: object) -> None:
    print(*words, flush=True)


async def main(url: str, project: str, agent: str) -> None:
    store = Store(url, timeout_ms=10_000)
    await store.open()
    tools = Client(store, project)

    async def look() -> list[str] | bool:
        """Items to take; True once nothing more can come: items of others may come back."""
        return await tools.next(limit=5) or not await tools.next(includeClaimed=True)

    say("ready")
    sys.stdin.readline()
    while (found := await wait_until(look, what="an item")) is not True:
        assert isinstance(found, list)
        item = found[hash(agent) % len(found)]
        if (await tools.claim(agent, item, ttlSeconds=1))["outcome"] != "success":
            continue
        say("claimed", item)
        if not (await tools.advance(item, "complete", agent))["applied"]:
            continue
        say("completed", item)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
