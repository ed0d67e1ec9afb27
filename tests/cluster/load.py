"""Agents that create, claim and complete items while a cluster changes, and what must be true of their answers.

Each call is repeated under its request id until it is answered, as clients do. Afterwards, in each project: the audit
finds no difference, the history has each item once, completed at most once, and what was acknowledged is there.

Where a primary has died without a planned failover, writes that it had acknowledged and not yet replicated are lost.
Then only such may be: writes to that shard, none from before the last moment at which its replica had everything, and
the last ones of each project. A write may only survive one that was acknowledged before it was sent if the new primary
made it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from time import monotonic
from typing import Any, NamedTuple, Self

from coordinator.errors import ToolFailure
from coordinator.service import end_tasks
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.roles import ROLE_CODES
from tests.items.client import Client, actor, fresh_id
from tests.support.history import Event, events_of
from tests.support.wait import wait_until

TERMINAL = ROLE_CODES["terminal"]
_PAUSE_SECONDS = 0.02
"""Of an agent, before it repeats a refused call."""


class Done(NamedTuple):
    """An acknowledged change."""

    what: str
    """create or complete."""
    item: str
    sent: float
    """When the call was made first, by ``monotonic``."""
    acked: float


class Load:
    """Agents of two front-ends, in several projects.

    Args:
        agents: per project.
    """

    def __init__(self, url: str, projects: Collection[str], agents: int = 3) -> None:
        self.projects = list(projects)
        self.done: dict[str, list[Done]] = {project: [] for project in projects}
        """What was acknowledged, in the order of answers."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """Refusals by project and message."""
        self._stores = [Store(url, timeout_ms=500) for _ in range(2)]
        self._over = asyncio.Event()
        self._agents = agents
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for store in self._stores:
            await store.open()
        self._tasks = [
            asyncio.create_task(self._work(Client(self._stores[n % 2], project), f"agent-{n}"))
            for project in self.projects
            for n in range(self._agents)
        ]
        await self.goes_on()
        return self

    async def __aexit__(self, failed: object, *_: object) -> None:
        if failed:  # they may never get an answer
            await end_tasks(*self._tasks)
        else:
            await self.stop()
        for store in self._stores:
            await store.close()

    async def stop(self) -> None:
        """Ends the agents once their calls are answered."""
        self._over.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*self._tasks)

    async def goes_on(self, projects: Iterable[str] = (), count: int = 12) -> None:
        """Waits until so many more changes have been acknowledged in each of these projects (none given: in all)."""
        wanted = {project: len(self.done[project]) + count for project in projects or self.projects}
        await wait_until(
            lambda: self._failed() or all(len(self.done[one]) >= number for one, number in wanted.items()),
            what=f"the agents to go on in {', '.join(wanted)} ({self.refused})",
        )

    async def is_refused(self, project: str, words: str, count: int = 6) -> None:
        """Waits until calls in a project have been refused so many more times with these words."""
        before = self._refusals(project, words)
        await wait_until(
            lambda: self._failed() or self._refusals(project, words) >= before + count, what=f"refusals with {words}"
        )

    async def check(self, lossy: Collection[str] = (), secured: float = 0.0, until: float = 0.0) -> None:
        """Ends the agents and checks everything.

        Args:
            lossy: projects whose primary died.
            secured: what was acknowledged before this is replicated, by ``monotonic``.
            until: what was sent after this went to the new primary.
        """
        await self.stop()
        for project in self.projects:
            report = await audit(self._stores[0], project)
            assert report.differences == [], project
            history = await self._history(project)
            _each_once(history)
            there = {("create", event.item) for event in history if event.kind == "create"}
            there |= {("complete", event.item) for event in history if event.after == TERMINAL}
            done = self.done[project]
            lost = [one for one in done if (one.what, one.item.replace("-", "")) not in there]
            assert not lost or project in lossy, f"acknowledged and lost in {project}: {lost}"
            kept = [one for one in done if one not in lost and one.acked < until]
            for one in lost:
                assert secured <= one.acked, f"acknowledged, replicated and lost in {project}: {one}"
                assert one.sent < until, f"acknowledged by the new primary and lost in {project}: {one}"
                later = [other for other in kept if other.sent > one.acked]
                assert not later, f"lost in {project}, although later ones are there: {one}, {later}"
            _completed_once(done, lost)

    def _refusals(self, project: str, words: str) -> int:
        return sum(number for (where, why), number in self.refused.items() if where == project and words in why)

    def _failed(self) -> bool:
        for task in self._tasks:
            if task.done():
                task.result()
        return False

    async def _history(self, project: str) -> list[Event]:
        entries = await self._stores[0].command("XRANGE", keys.events.key(project), "-", "+")
        found: list[Event] = []
        for entry, fields in entries:
            words = [word.decode() for word in fields]
            found += events_of(entry.decode(), dict(zip(words[::2], words[1::2], strict=True)))
        return found

    async def _work(self, tools: Client, agent: str) -> None:
        who, done = actor(agent), self.done[tools.project]
        for number in range(1_000_000):
            if self._over.is_set():
                return
            asked = {"operation": "create", "items": [{"title": f"{agent} {number}", "tags": "load"}]}
            created, sent = await self._call(tools, "manage_items", **asked)
            done.append(Done("create", created["items"][0]["id"], sent, monotonic()))
            claims = [{"selector": {"tags": "load"}, "ttlSeconds": 60}]
            claimed, _ = await self._call(tools, "claim_item", actor=who, claims=claims)
            (entry,) = claimed["claimResults"]
            if entry["outcome"] != "success":
                assert entry["outcome"] == "no_match", entry
                continue
            step = {"itemId": entry["itemId"], "actor": who, "fenceToken": entry["fenceToken"], "trigger": "complete"}
            ended, sent = await self._call(tools, "advance_item", transitions=[step])
            if ended["results"][0]["applied"]:  # else a failover has lost the claim
                done.append(Done("complete", entry["itemId"], sent, monotonic()))

    async def _call(self, tools: Client, tool: str, **arguments: Any) -> tuple[Any, float]:
        """The answer to a call, and when it was made first."""
        request, sent = fresh_id(), monotonic()
        while True:
            try:
                return await tools(tool, requestId=request, **arguments), sent
            except ToolFailure as failure:
                if failure.code != "store_unavailable" or not failure.retry_after_ms:
                    raise
                self.refused[tools.project, failure.message] += 1
            await asyncio.sleep(_PAUSE_SECONDS)


def _each_once(history: list[Event]) -> None:
    """Items are created once and completed at most once; fences rise; one claim at a time."""
    created = Counter(event.item for event in history if event.kind == "create")
    completed = Counter(event.item for event in history if event.after == TERMINAL)
    assert not [item for counts in (created, completed) for item, number in counts.items() if number > 1]
    fences: dict[str, list[int]] = defaultdict(list)
    for event in history:
        if event.kind == "claim":
            fences[event.item].append(event.fence)
    assert all(found == sorted(set(found)) for found in fences.values())


def _completed_once(done: list[Done], lost: list[Done]) -> None:
    """No two agents got the acknowledgement that they completed an item, unless the first was lost."""
    counts = Counter((one.what, one.item) for one in done)
    twice = {one for one, number in counts.items() if number > 1}
    assert twice <= {(one.what, one.item) for one in lost}, f"acknowledged twice: {twice}"
