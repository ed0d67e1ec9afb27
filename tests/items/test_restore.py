"""A backup of the store is restored while agents work: fences granted after the backup are never granted again."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

AGENTS = 12


class Restored:
    """A separate server, with a backup of its data to restore."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedServer(directory / "data")
        self._data, self._copy = directory / "data" / "redis", directory / "copy"

    def copy(self) -> None:
        shutil.copytree(self._data, self._copy)

    async def restore(self) -> None:
        kill(self.server)
        await wait_until(lambda: self.server.poll() is not None, what="the server's end")
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)
        await asyncio.to_thread(self.server.start)


@pytest.fixture
async def restored(tmp_path: Path) -> AsyncIterator[Restored]:
    restored = Restored(tmp_path)
    await asyncio.to_thread(restored.server.start)
    yield restored
    await asyncio.to_thread(restored.server.stop)


@pytest.fixture
async def tools(restored: Restored) -> AsyncIterator[Client]:
    store = Store(restored.server.url, timeout_ms=5000)
    await store.open()
    yield Client(store, "default")
    await store.close()


@pytest.mark.parametrize("rewritten", [False, True], ids=["log", "snapshot and log"])
async def test_no_fence_is_reused_and_writes_of_lost_claims_are_rejected(
    restored: Restored, tools: Client, rewritten: bool
) -> None:
    items = await tools.add_many(AGENTS)
    granted: dict[str, list[int]] = {item: [] for item in items}

    async def claim(agent: str, item: str) -> int:
        result = await tools.claim(agent, item)
        assert result["outcome"] == "success", result
        granted[item].append(result["fenceToken"])
        return int(result["fenceToken"])

    for number, item in enumerate(items):
        await claim(f"first-{number}", item)
        await tools.release(f"first-{number}", item)
    if rewritten:
        await tools.store.command("BGREWRITEAOF")

        async def written() -> bool:
            info = await tools.store.command("INFO", "persistence")
            return b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info

        await wait_until(written, what="the snapshot")
    restored.copy()
    # The following is lost, and the agents do not know.
    for number, item in enumerate(items):
        for _ in range(number):
            await claim(f"lost-{number}", item)
            await tools.release(f"lost-{number}", item)
    lost = [await claim(f"agent-{number}", item) for number, item in enumerate(items)]
    await restored.restore()
    await wait_until(lambda: tools.store.connected, what="the link")
    for number, item in enumerate(items):
        before = max(granted[item])
        assert await claim(f"rival-{number}", item) > before
        assert (await tools.claim(f"agent-{number}", item, fenceToken=lost[number]))["outcome"] == "already_claimed"
        await tools.release(f"rival-{number}", item)
        stale = await tools.advance(item, "complete", f"agent-{number}", fenceToken=lost[number])
        assert (stale["applied"], stale["errorCode"]) == (False, "stale_fence")
        again = await tools.claim(f"agent-{number}", item, fenceToken=lost[number])
        assert again["outcome"] == "stale_fence"
    fences = [(item, fence) for item, given in granted.items() for fence in given]
    assert len(fences) == len(set(fences))
    assert not (await audit(tools.store, tools.project)).differences


async def test_fences_distinguish_agents_that_continue_over_a_restore(restored: Restored, tools: Client) -> None:
    items = await tools.add_many(4)
    granted: list[tuple[str, int]] = []
    holders: dict[tuple[str, int], set[str]] = defaultdict(set)
    latest: dict[str, int] = {}
    stale: list[Any] = []
    over, began, back = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def agent(name: str) -> None:
        for turn in range(10**6):
            item = items[(turn + int(name)) % len(items)]
            try:
                result = await tools.claim(name, item)
                if result["outcome"] != "success":
                    continue
                fence = result["fenceToken"]
                granted.append((item, fence))
                holders[item, fence].add(name)
                latest[item] = max(latest.get(item, 0), fence)
                if len(granted) > 200:
                    began.set()
                await tools.release(name, item)
                # Another agent may have held the item since this agent's last write.
                newest = latest[item]
                written = await tools.advance(item, "start", fenceToken=fence)
                if written["applied"]:
                    if newest != fence:
                        stale.append((item, fence, newest))
                    await tools.advance(item, "block")
                    await tools.advance(item, "resume")
            except ToolFailure:
                await asyncio.sleep(0)
            if over.is_set():
                return
            if back.is_set() and len(granted) > 600:
                over.set()

    agents = [asyncio.create_task(agent(str(number))) for number in range(AGENTS)]
    await wait_until(lambda: len(granted) > 50, what="some claims")
    restored.copy()
    async with asyncio.timeout(60):
        await began.wait()
    await restored.restore()
    back.set()
    async with asyncio.timeout(60):
        await asyncio.gather(*agents)
    assert [names for names in holders.values() if len(names) > 1] == [], "a fence was granted twice"
    assert stale == []
