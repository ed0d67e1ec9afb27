"""Parked calls over several front-ends of one project."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.idempotency import idempotency_key
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json
from tests.items.selectors import call_of
from tests.support.wait import wait_until

SOON = 60.0
"""Seconds allowed for milliseconds of work on a busy machine."""
LONG_MS = 60_000


class Parked:
    """A claim call that waits."""

    def __init__(self, task: asyncio.Task[Json], agent: str, request_id: str) -> None:
        self.task = task
        self.agent = agent
        self.request_id = request_id
        self.name = idempotency_key(agent, request_id, "").key
        """Of the waiter in the store."""

    @property
    def waits(self) -> bool:
        return not self.task.done()

    async def answer(self) -> Json:
        """The whole result. Raises ToolFailure."""
        async with asyncio.timeout(SOON):
            return await asyncio.shield(self.task)

    async def claim(self) -> Json:
        """The entry's result."""
        result: Json = (await self.answer())["claimResults"][0]
        return result

    async def item(self) -> str:
        """The item that was claimed."""
        claim = await self.claim()
        assert claim["outcome"] == "success", claim
        return str(claim["itemId"])

    async def leave(self) -> None:
        """The caller hangs up."""
        self.task.cancel()
        await asyncio.wait([self.task])


class Front(Client):
    """One front-end: its own connection and its own parked calls."""

    def __init__(self, url: str, project: str, settings: Settings | None = None) -> None:
        super().__init__(Store(url, timeout_ms=5000), project, settings)
        self.calls: list[Parked] = []
        self.runs: Counter[str] = Counter()
        """Script runs so far, by name."""
        self.store.observe = lambda name, _seconds, _outcome, *_: self.runs.update([name])

    async def park(self, agent: str, selector: Json | None = None, *, wait_ms: int = LONG_MS, **more: Any) -> Parked:
        """Begins a claim by selector and returns when it waits in the store."""
        before = self.runs["claim_next"]
        call = self.begin(agent, selector, wait_ms=wait_ms, **more)

        async def parked() -> bool:
            assert call.waits, f"did not wait: {call.task}"
            return self.runs["claim_next"] > before and await self.is_parked(call)

        await wait_until(parked, SOON, f"{agent} to be parked")
        return call

    def begin(self, agent: str, selector: Json | None = None, **more: Any) -> Parked:
        """Begins a claim by selector."""
        arguments = call_of(agent, selector, **more)
        call = Parked(asyncio.create_task(self("claim_item", **arguments)), agent, arguments["requestId"])
        self.calls.append(call)
        return call

    async def is_parked(self, call: Parked) -> bool:
        """Whether the store knows that the call waits."""
        return bool(await self.store.command("EXISTS", keys.waiter.key(self.project, call.name)))

    async def process(self) -> str:
        """The store's id of this front-end, which has a parked call."""
        name = next(call.name for call in self.calls if call.waits)
        return str((await self.store.command("HGET", keys.waiter.key(self.project, name), "p")).decode())

    async def wait_for_nobody(self) -> None:
        """Returns once none of its calls is parked or being given up."""

        async def over() -> bool:
            return not any([await self.is_parked(call) for call in self.calls]) and not self.store.in_flight

        await wait_until(over, SOON, "no call to wait")

    async def kill(self) -> None:
        """Stops without cleanup, like a killed process."""
        await self.store.close()
        assert self.drain is not None
        await self.drain()

    async def close(self) -> None:
        """Ends parked calls."""
        assert self.drain is not None
        await self.drain()
        for call in self.calls:
            await call.leave()
        await self.store.close()


class Fronts:
    """The front-ends of a test."""

    def __init__(self, url: str, project: str) -> None:
        self._url = url
        self._project = project
        self._all: list[Front] = []

    async def make(self, url: str = "", settings: Settings | None = None) -> Front:
        front = Front(url or self._url, self._project, settings)
        self._all.append(front)
        await front.store.open()
        return front

    async def pair(self) -> tuple[Front, Front]:
        return await self.make(), await self.make()

    async def close(self) -> None:
        """Ends all of them, and checks that nothing remains."""
        for front in self._all:
            await front.close()
        store = Store(self._url, timeout_ms=5000)
        await store.open()
        try:
            assert (await audit(store, self._project)).differences == []
            for family in (keys.waiting, keys.wanted, keys.queue, keys.waiter):
                pattern = keys.project_prefix(self._project) + family.suffix.encode() + b"*"
                assert [key async for key in store.client.scan_iter(match=pattern)] == []
        finally:
            await store.close()
