"""One agent: asks for work, claims it, does it and gives it back, until it is told to stop.

It claims the best item with a selector, and waits in that call until there is one. For comparison it can also poll:
list items, claim one of them, list again. It behaves as an agent should: it takes another item when somebody was
faster, renews its claim during long work, stops work on an item whose claim it lost, and pauses longer and longer
while there is nothing to do. Now and then it crashes: it stops in the middle of an item for good.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from typing import Any, Protocol

import msgspec

from coordinator.client.retries import Retryable

_OFFERS = 20
"""How many items an agent asks for at once. If all agents took the best one, they would only obstruct each other."""
_CANDIDATES = 5
"""How many items one claim names; the fleet grants at most one of them."""
_IDLE_SHARE = 1 / 16
"""The first pause when there is nothing to do, as a fraction of the longest. It doubles each time."""
_GAVE_UP_SECONDS = 1.0


class Calls(Protocol):
    """The part of an MCP client that an agent uses."""

    async def call(
        self, tool: str, arguments: dict[str, Any], *, urgent: bool = False, waits: bool = False
    ) -> dict[str, Any]:
        """The tool's structured answer; raises ``Retryable`` or ``Refused``."""
        ...


class Behaviour(msgspec.Struct, frozen=True):
    """How agents behave."""

    work_ms: float
    """The mean duration of the simulated work on an item. It varies from half to one and a half times this."""
    ttl_seconds: int
    """How long claims last."""
    crash_rate: float
    """The fraction of claims during which the agent crashes."""
    idle_limit: float
    """Longest pause when there is nothing to do, in seconds."""
    wait_ms: int = 0
    """How long a claim waits for an item, in milliseconds; 0: agents ask again and again instead."""


class Crash(msgspec.Struct, frozen=True):
    """An agent that stopped while it held a claim."""

    agent: str
    item: str
    """32 hex digits."""
    fence: int


class Held(msgspec.Struct):
    """An item that this agent has claimed."""

    item: str
    begin: bool
    """Whether to start it: not one that this agent had begun before it lost its claim."""
    fence: int
    renewed: float
    """When the claim was asked for last (monotonic)."""


class Lost(Exception):
    """The claim was lost: another agent has the item."""


class Agent:
    """An agent under one id.

    Args:
        name: the actor id, which no other agent has or ever had.
        calls: its connection.
        rng: what it decides by.
        stop: set when it is to finish what it holds and end.
        counts: shared by the agents of a process: what they did.
    """

    def __init__(
        self,
        name: str,
        calls: Calls,
        behaviour: Behaviour,
        rng: random.Random,
        stop: asyncio.Event,
        counts: Counter[str],
    ) -> None:
        self.name = name
        self._calls = calls
        self._behaviour = behaviour
        self._rng = rng
        self._stop = stop
        self._counts = counts
        self._actor = {"id": name, "kind": "subagent", "parent": "fleet-demo"}
        self._rounds = rng.randrange(4)

    async def run(self) -> Crash | None:
        """Works until told to stop, or until it crashes: then what it held.

        Raises:
            Refused: the fleet refused a call for good.
        """
        idle = 0
        while not self._stop.is_set():
            try:
                held = await self._find()
                if held is None:
                    if self._behaviour.wait_ms:
                        continue  # the call has waited
                    self._counts["polls"] += 1
                    await self._pause(self._behaviour.idle_limit * min(1.0, _IDLE_SHARE * 2 ** min(idle, 10)))
                    idle += 1
                    continue
                idle = 0
                if await self._work(held):
                    return Crash(self.name, held.item.replace("-", ""), held.fence)
            except Lost:
                self._counts["lost_while_working"] += 1
            except Retryable:
                # Whatever it was, the claim runs out and the item comes back by itself.
                self._counts["gave_up"] += 1
                await self._pause(_GAVE_UP_SECONDS)
        return None

    async def _find(self) -> Held | None:
        """A claimed item, or None if there is none to claim."""
        self._rounds += 1
        if self._behaviour.wait_ms:
            return await self._wait_for_one()
        # Work that a crashed agent had begun waits in the role "work".
        for role in ("queue", "work") if self._rounds % 4 else ("work", "queue"):
            answer = await self._calls.call("get_next_item", {"role": role, "limit": _OFFERS})
            if offers := {offer["itemId"]: offer["role"] for offer in answer["recommendations"]}:
                return await self._claim(offers)
        return None

    async def _wait_for_one(self) -> Held | None:
        """A claim on the best item as soon as there is one, new or abandoned; None when there was none for too long."""
        claims = [{"selector": {}, "ttlSeconds": self._behaviour.ttl_seconds}]
        arguments = self._signed(claims=claims, waitMs=self._behaviour.wait_ms)
        call = asyncio.ensure_future(self._calls.call("claim_item", arguments, waits=True))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([call, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                return None  # everything is done
            (result,) = call.result()["claimResults"]
        finally:
            call.cancel()
            stopped.cancel()
        self._counts[f"claim_{result['outcome']}"] += 1
        if result["outcome"] != "success":
            self._counts["polls"] += 1
            return None
        # The claim is as old as the answer was on its way, which half the time to live has room for.
        return Held(result["itemId"], True, result["fenceToken"], time.monotonic())

    async def _claim(self, offers: dict[str, str]) -> Held | None:
        """Claims one of the items (id -> role); None if others were faster."""
        asked = time.monotonic()
        candidates = self._rng.sample(sorted(offers), min(_CANDIDATES, len(offers)))
        results = await self._ask_for_claims(candidates)
        won = None
        for result in results:
            self._counts[f"claim_{result['outcome']}"] += 1
            if result["outcome"] == "success":
                won = result
        if won is None:
            self._counts["claims_in_vain"] += 1
            return None
        begin = offers[won["itemId"]] == "queue" or won.get("takeover", False)
        return Held(won["itemId"], begin, won["fenceToken"], asked)

    async def _work(self, held: Held) -> bool:
        """Does the work on an item. Returns whether the agent crashed meanwhile."""
        crash = self._rng.random() < self._behaviour.crash_rate
        if crash and self._rng.random() < 0.5:
            return True
        if held.begin:
            await self._advance(held, "start")
        left = self._behaviour.work_ms / 1000 * self._rng.uniform(0.5, 1.5)
        if crash:
            return True
        half = self._behaviour.ttl_seconds / 2
        while left > 0:
            slept = min(left, half)
            await asyncio.sleep(slept)
            left -= slept
            await self._renew_if_due(held)
        await self._renew_if_due(held)
        await self._advance(held, "complete")
        self._counts["done"] += 1
        await self._release(held)
        return False

    async def _renew_if_due(self, held: Held) -> None:
        """Renews a claim that is half over."""
        now = time.monotonic()
        if now - held.renewed < self._behaviour.ttl_seconds / 2:
            return
        result = (await self._ask_for_claims([held.item]))[0]
        if result["outcome"] != "success":
            raise Lost
        held.renewed, held.fence = now, result["fenceToken"]
        self._counts["renewals"] += 1

    async def _ask_for_claims(self, items: list[str]) -> list[dict[str, Any]]:
        claims = [{"itemId": item, "ttlSeconds": self._behaviour.ttl_seconds} for item in items]
        answer = await self._calls.call("claim_item", self._signed(claims=claims), urgent=True)
        results: list[dict[str, Any]] = answer["claimResults"]
        return results

    async def _advance(self, held: Held, trigger: str) -> None:
        transition = {"itemId": held.item, "trigger": trigger, "actor": self._actor, "fenceToken": held.fence}
        arguments = {"transitions": [transition], "requestId": str(uuid.uuid4())}
        result = (await self._calls.call("advance_item", arguments, urgent=True))["results"][0]
        if not result["applied"]:
            # Not ours any more, or somebody else has finished it.
            self._counts["refused_" + trigger] += 1
            await self._release(held)
            raise Lost

    async def _release(self, held: Held) -> None:
        arguments = self._signed(releases=[{"itemId": held.item}])
        answer = await self._calls.call("claim_item", arguments, urgent=True)
        self._counts["release_" + answer["releaseResults"][0]["outcome"]] += 1

    def _signed(self, **arguments: Any) -> dict[str, Any]:
        return {"actor": self._actor, "requestId": str(uuid.uuid4()), **arguments}

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds * self._rng.uniform(0.5, 1.0)):
                await self._stop.wait()
        except TimeoutError:
            pass
