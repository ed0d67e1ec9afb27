"""Many agents, each a worker as the client library makes it, with a connection and an id of its own.

Now and then one crashes: it stops in the middle of an item for good, and another one with another id takes its place.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict

import msgspec

from coordinator.client import ClaimLost, Fleet, FleetError, Observer
from coordinator.client.retries import Retryable
from coordinator.demo.source import DemoSource
from coordinator.demo.work import Crash

_APART_SECONDS = 0.004
_LAST_SECONDS = 20.0
"""How long agents may finish their items after they are told to stop."""


class Options(msgspec.Struct, frozen=True):
    source: DemoSource
    agents: int
    trees: int
    url: str | None
    project: str | None
    """Kept afterwards; None for one of the run's own, which is removed."""
    crash_rate: float
    """The share of jobs during which the agent crashes."""
    work_ms: float
    """The mean duration of the simulated work on an item. It varies from half to one and a half times this."""
    ttl: int
    """How long claims last, in seconds."""
    seed: str
    """What the decisions of agents follow from."""
    chaos_seconds: float | None
    """Between two kills; None for none."""


class Agents(Observer):
    """The agents of a demo, and what they did so far."""

    def __init__(self, url: str, project: str, options: Options) -> None:
        self.latencies: dict[str, list[float]] = defaultdict(list)
        """Tool -> milliseconds of each answered attempt."""
        self.unanswered: Counter[str] = Counter()
        """Reason -> attempts that had no answer, or none but that the fleet is busy."""
        self.outcomes: Counter[str] = Counter()
        """How jobs ended."""
        self.crashes: list[Crash] = []
        self.failures: list[str] = []
        """Agents that ended because something was not as promised."""
        self._url, self._project, self._asked = url, project, options
        self._fleets: set[Fleet] = set()
        self._lives: list[asyncio.Task[None]] = []
        self._stopped = False

    def answered(self, tool: str, seconds: float) -> None:
        self.latencies[tool].append(1000 * seconds)

    def retried(self, failure: Retryable) -> None:
        self.unanswered[failure.reason] += 1

    def start(self) -> None:
        self._lives = [asyncio.create_task(self._live(number + 1)) for number in range(self._asked.agents)]

    async def stop(self) -> None:
        """Lets them finish their items. Further calls do nothing."""
        self._stopped = True
        for fleet in self._fleets:
            fleet.stop()
        if self._lives:
            _, late = await asyncio.wait(self._lives, timeout=_LAST_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._lives, return_exceptions=True)
            self._lives = []

    async def _live(self, number: int) -> None:
        """One agent under this number, and another one with another id whenever one has crashed."""
        # They come one after the other: thousands at once would only show how long it takes to let them in.
        await asyncio.sleep(number * _APART_SECONDS)
        life = 0
        while not self._stopped and not self.failures:
            life += 1
            name = f"agent-{number}" + (f".{life}" if life > 1 else "")
            try:
                await self._work(name, random.Random(f"{self._asked.seed}:{name}"))
            except (FleetError, OSError) as error:
                self.failures.append(f"{name}: {error}")

    async def _work(self, name: str, rng: random.Random) -> None:
        options = self._asked
        async with Fleet(self._url, "", self._project, name, parent="fleet-demo", observer=self) as fleet:
            self._fleets.add(fleet)
            async for job in fleet.jobs(ttl=options.ttl, grace=0.1 * options.ttl):
                crashes = rng.random() < options.crash_rate
                async with job:
                    if crashes:
                        self.crashes.append(Crash(name, job.id.replace("-", ""), job.fence))
                        raise ClaimLost("stale_fence", "its agent has crashed")  # so nobody is told that it is over
                    await asyncio.sleep(options.work_ms / 1000 * rng.uniform(0.5, 1.5))
                    await job.done(next=True)
                if crashes:
                    break
                self.outcomes[str(job.outcome)] += 1
        self._fleets.discard(fleet)
