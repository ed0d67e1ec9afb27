"""A fleet as those see it who work for it, or give it work: ``Fleet``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from coordinator.client.calls import ANSWER_SECONDS, PATIENCE_SECONDS, Observer
from coordinator.client.core import Core
from coordinator.client.flows import Run
from coordinator.client.job import Job
from coordinator.client.jobs import Jobs
from coordinator.client.plans.plan import Plan
from coordinator.client.slots import Slots
from coordinator.client.stopping import stopping
from coordinator.client.trees import Tree, planted

T = TypeVar("T")


class Fleet:
    """The fleet at a URL, for one agent. An async context manager; nothing that it starts outlives the block.

    Args:
        url: of the fleet, or of one of its endpoints, which may name the project. Several after commas, those of its
            front-ends: when one does not answer, the next is called. Default: ``FLEET_URL``, else that of a fleet on
            this machine.
        token: a bearer token. Default: ``FLEET_TOKEN``, else none.
        project: default: ``FLEET_PROJECT``, else ``default``.
        agent: who acts. With a token it is the caller's own id, also with ``/`` and a suffix. Two processes must not
            use the same one, because an agent holds one claim at a time. Default: ``FLEET_AGENT``, else a name that no
            other process has; with a token a slot of the caller. Empty: the caller whom the token names.
        slots: how many jobs it does side by side. Several slots act as ``<agent>/1``, ``<agent>/2`` and so on.
        parent: the agent that dispatched this one, for the record.
        kind: orchestrator, subagent, user or external.
        observer: is told of all calls.
        patience: how long a call is repeated, in seconds.

    Raises:
        ValueError: one of these is not allowed.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        slots: int = 1,
        *,
        parent: str | None = None,
        kind: str = "subagent",
        observer: Observer | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        if slots < 1:
            raise ValueError("slots must be 1 or more")
        self._core = core = Core(url, token, project, agent, parent, kind, observer, patience)
        self.url, self.token, self.project, self.agent = core.url, core.token, core.project, core.agent
        self.slots = slots
        self._slots = Slots(core, [self._name(number) for number in range(slots)])

    async def __aenter__(self) -> Self:
        self._core.check_process()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._core.forked:
            return
        await self._core.leave(self._slots.leave())

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        toolset: str | None = None,
        agent: str | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> dict[str, Any]:
        """Calls a tool and returns its structured answer.

        Actor and ``requestId`` are filled in where the tool takes them and they are not given. What may succeed later
        is repeated, unchanged and so with the same ``requestId``, while the fleet has patience. A call that changes
        something and takes no ``requestId`` is repeated only if it was not carried out for sure.

        Args:
            arguments: as ``fleet tools`` shows them.
            toolset: needed only if several toolsets have a tool of that name.
            agent: who acts, if it is not the agent of the fleet.
            seconds: how long an attempt may take, besides its ``waitMs``.

        Raises:
            FleetError: see ``errors``. ``Unavailable``: it could not be made in time.
        """
        return await self._core.call(tool, arguments, toolset=toolset, agent=agent, seconds=seconds)

    async def feed(self, query: str) -> dict[str, Any]:
        """An answer of the change feed: ``{"events", "cursor", "hasMore"}``.

        Args:
            query: with ``waitMs``, and as the page of the feed says.
        """
        return await self._core.feed(query)

    def jobs(
        self,
        *,
        tags: str | Sequence[str] | None = None,
        type: str | None = None,
        priority: str | None = None,
        parent: str | None = None,
        ancestor: str | None = None,
        role: str | None = None,
        selector: Mapping[str, Any] | None = None,
        capabilities: Sequence[str] | None = None,
        ttl: int = 900,
        grace: float = 5.0,
        until: Tree | asyncio.Event | Callable[[], Coroutine[Any, Any, object]] | None = None,
        wait: bool = True,
        raises: bool = False,
    ) -> Jobs:
        """Items as this fleet's slots get them, ready ones and those that other agents have left: an async iterator.

            async for job in fleet.jobs(tags="docs"):
                async with job:
                    await job.done(await write(job.title, job.description))

        With one slot the next item is claimed when the one before has ended. With several, run the work as tasks of an
        ``asyncio.TaskGroup``, or use ``work``. After four failures in a row, it pauses before each claim, up to a
        minute.

        Args:
            tags: any of these. Like the others, it goes with all that are given.
            parent, ancestor: items directly below, or anywhere below, this one.
            role: default: what is on offer, in any role.
            selector: further members of the selector of ``claim_item``.
            capabilities: what these agents can do, for items that require it.
            ttl: how long a claim lasts, in seconds, if it is not renewed: then others get the item.
            grace: how long the work may take to end when its claim is lost.
            until: ends the iterator: a tree that is finished, an event, or a function whose end is awaited.
            wait: whether to wait for items; otherwise the iterator ends when none is offered.
            raises: whether what ends a job, ``ClaimLost`` too, leaves its block as an exception.
        """
        chosen: dict[str, Any] = {**(selector or {})}
        conditions = {"type": type, "priority": priority, "parentId": parent, "ancestorId": ancestor, "role": role}
        chosen |= {name: value for name, value in conditions.items() if value is not None}
        if tags is not None:
            chosen["tags"] = tags if isinstance(tags, str) else ",".join(tags)
        over = until.wait if isinstance(until, asyncio.Event) else until.finished if isinstance(until, Tree) else until
        return Jobs(self._core, self._slots, chosen, capabilities, ttl, grace, over, wait, raises)

    async def work(
        self,
        handler: Callable[[Job], Awaitable[object]],
        *,
        slots: int | None = None,
        drain: float = 30.0,
        signals: bool = True,
        **selection: Any,
    ) -> None:
        """Calls a handler with each job, side by side in all slots, until the fleet is stopped.

        Args:
            handler: the work; it says ``await job.done(...)``.
            slots: raises the number of slots.
            drain: seconds that work under way may take when the fleet is stopped; then it is cancelled.
            signals: whether SIGTERM and SIGINT stop the fleet, and a second one ends the drain.
            selection: as ``jobs`` takes it.
        """
        for number in range(len(self._slots.all), slots or 0):
            self._slots.add(self._name(number))
        jobs = self.jobs(**selection)
        jobs.eager = True
        tasks: set[asyncio.Task[None]] = set()
        failed: list[Exception] = []

        async def one(job: Job) -> None:
            try:
                async with job:
                    await handler(job)
            except Exception as error:
                jobs.end()
                failed.append(error)

        def hurry() -> None:
            for task in tasks:
                task.cancel()

        soon = asyncio.get_running_loop().call_soon_threadsafe
        with stopping(partial(soon, self.stop), partial(soon, hurry)) if signals else contextlib.nullcontext():
            try:
                async for job in jobs:
                    tasks.add(task := asyncio.create_task(one(job)))
                    task.add_done_callback(tasks.discard)
                if tasks:
                    await asyncio.wait(tuple(tasks), timeout=drain)
            finally:
                jobs.end()
                hurry()
                await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            raise failed[0]

    async def plan(self, plan: Mapping[str, Any] | str | Path | Plan, *, parent: str | None = None) -> Tree:
        """Creates a tree of work: all of it or nothing, and nobody is offered a part of it before.

        A parent waits for its children, and ends with them.

        Args:
            plan: ``{"title", "children": [{"ref", "title", "tags", "after": [ref], ...}]}``, or the path of a YAML
                file with that, or of a Markdown task list (``plan``, ``markdown``); or what ``plan.read`` made of one.
            parent: the item to put it under.

        Raises:
            Invalid: the plan is wrong; the message says where.
        """
        return await planted(self._core, plan, parent)

    def tree(self, item: str) -> Tree:
        return Tree(self._core, item)

    async def flow(
        self, name: str, flow: Mapping[str, Any], input: Mapping[str, Any] | None = None, **more: Any
    ) -> Run:
        """Starts a workflow, which the fleet's workers execute.

        Args:
            flow, input, more: as ``workflow_create`` takes them.
        """
        created = {"name": name, "flow": flow, "input": input, **more}
        return Run(self._core, (await self.call("workflow_create", created))["id"])

    def run(self, id: str) -> Run:
        """A run of a workflow that was started before."""
        return Run(self._core, id)

    def stop(self) -> None:
        """No further jobs: all loops over ``jobs`` end, and so does ``work`` when what runs has ended."""
        self._slots.stop()

    async def settle(self, work: Coroutine[Any, Any, T]) -> T:
        """Does what must be done although the task that asks for it may be cancelled, before the block is left."""
        return await self._core.settle(work)

    def _name(self, number: int) -> str:
        """The agent of a slot, from 0."""
        if number == 0 and self.slots == 1:
            return self.agent
        # A slot has no slots of its own.
        return f"{self.agent}{'-' if '/' in self.agent else '/'}{number + 1}"

    @property
    def at(self) -> str:
        """The one of several URLs that calls go to now."""
        return self._core.at

    @property
    def busy(self) -> int:
        """How many jobs have not ended."""
        return len(self._slots.running)
