"""The same for programs without an event loop: ``SyncFleet``, with the names and arguments of ``Fleet``.

A ``Fleet`` runs in a thread; every method waits for that of the same name there. Work cannot be cancelled from outside:
look at ``job.lost``, or call ``job.check()``, in long work; both also tell that a worker is stopped and its drain is
over. Every method of a job raises ``ClaimLost`` by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal

from coordinator.client.calls import ONE_EACH
from coordinator.client.fleet import Fleet
from coordinator.client.flows import Run
from coordinator.client.job import Job, Outcome, Usage
from coordinator.client.jobs import Jobs
from coordinator.client.stopping import stopping
from coordinator.client.trees import Tree

T = TypeVar("T")
P = ParamSpec("P")


class _Portal:
    """An event loop in a thread, as a context manager. A child process does not have the thread: there, calls are
    refused, and leaving it does nothing."""

    def __init__(self) -> None:
        self._process = os.getpid()
        started: Future[BlockingPortal] = Future()

        async def serve() -> None:
            async with BlockingPortal() as portal:
                started.set_result(portal)
                await portal.sleep_until_stopped()

        # The end of anyio's start_blocking_portal would wait for the thread in a child, too.
        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        self._portal = started.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.forked:
            self._portal.call(self._portal.stop, kind is not None)
            self._thread.join()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that has started it."""
        return self._process != os.getpid()

    @property
    def own(self) -> BlockingPortal:
        """Calls into the loop.

        Raises:
            RuntimeError: this is a child process.
        """
        if self.forked:
            raise RuntimeError(f"this client was opened in another process ({self._process}): {ONE_EACH}")
        return self._portal


class _Thread:
    """What runs in the thread, called from outside."""

    def __init__(self, portal: _Portal) -> None:
        self._portal = portal

    def _do(self, work: Callable[P, Awaitable[T]], *args: P.args, **more: P.kwargs) -> T:
        return self._portal.own.call(partial(work, *args, **more))

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> list[T]:
            async for item in items:
                return [item]
            return []

        while found := self._portal.own.call(following):
            yield from found


class SyncJob(_Thread):
    """A ``Job``, as a context manager around the work on it."""

    def __init__(self, job: Job, portal: _Portal) -> None:
        super().__init__(portal)
        self._job = job
        self.item, self.notes, self.results = job.item, job.notes, job.results
        self.id, self.title, self.description = job.id, job.title, job.description
        self.attempt, self.takeover, self.fence, self.agent, self.needs = (
            job.attempt, job.takeover, job.fence, job.agent, job.needs,
        )  # fmt: skip

    @property
    def role(self) -> str:
        """Where the item stands."""
        return self._job.role

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None: it has not."""
        return self._job.outcome

    @property
    def error(self) -> BaseException | None:
        """The exception that ended it, if one did."""
        return self._job.error

    @property
    def lost(self) -> bool:
        """Whether the work has to end: its claim is lost, or is being given back."""
        return self._job.lost

    def check(self) -> None:
        """Raises ``ClaimLost`` if the work has to end; ``JobStopped`` if that is because a budget is spent."""
        self._job.check()

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """As ``Job.call``."""
        return self._do(self._job.call, tool, arguments)

    @property
    def stop_reason(self) -> str | None:
        """Which budget is spent; None: none is."""
        return self._job.stop_reason

    def usage(self, **used: Any) -> None:
        """As ``Job.usage``."""
        self._portal.own.call(partial(self._job.usage, **used))

    def note(self, key: str, body: str, role: str | None = None, usage: Usage | None = None) -> None:
        """As ``Job.note``."""
        self._do(self._job.note, key, body, role, usage)

    def take(self, *resources: str | Mapping[str, Any]) -> bool:
        """As ``Job.take``."""
        return self._do(self._job.take, *resources)

    def progress(self, text: str, usage: Usage | None = None) -> None:
        """As ``Job.progress``."""
        self._do(self._job.progress, text, usage)

    def done(self, result: Any = None, summary: str | None = None, usage: Usage | None = None) -> None:
        """As ``Job.done``."""
        self._do(self._job.done, result, summary, usage)

    def fail(self, detail: str, usage: Usage | None = None) -> None:
        """As ``Job.fail``."""
        self._do(self._job.fail, detail, usage)

    def give_up(self, detail: str, usage: Usage | None = None) -> None:
        """As ``Job.give_up``."""
        self._do(self._job.give_up, detail, usage)

    def quarantine(self, detail: str, usage: Usage | None = None) -> None:
        """As ``Job.quarantine``."""
        self._do(self._job.quarantine, detail, usage)

    def hand_back(self, detail: str = "", usage: Usage | None = None) -> None:
        """As ``Job.hand_back``."""
        self._do(self._job.hand_back, detail, usage)

    def block(self, reason: str, usage: Usage | None = None) -> None:
        """As ``Job.block``."""
        self._do(self._job.block, reason, usage)

    def ask(self, question: str, usage: Usage | None = None) -> None:
        """As ``Job.ask``."""
        self._do(self._job.ask, question, usage)

    def __enter__(self) -> Self:
        self._portal.own.call(self._job.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # In a child process, the work goes on in the one that has claimed it.
        return not self._portal.forked and self._do(self._job.__aexit__, kind, error, trace)


class SyncJobs(_Thread, Iterator[SyncJob]):
    """``Jobs``, an iterator."""

    def __init__(self, jobs: Jobs, portal: _Portal) -> None:
        super().__init__(portal)
        self._jobs, self._coming = jobs, self._each(jobs)

    def __next__(self) -> SyncJob:
        return SyncJob(next(self._coming), self._portal)

    @property
    def held_back(self) -> dict[str, int]:
        """As ``Jobs.held_back``."""
        return self._jobs.held_back


class SyncTree(_Thread):
    """A ``Tree``."""

    def __init__(self, tree: Tree, portal: _Portal) -> None:
        super().__init__(portal)
        self.tree = tree
        self.id, self.ids = tree.id, tree.ids

    def finished(self, timeout: float | None = None) -> dict[str, int]:
        """As ``Tree.finished``; ``TimeoutError`` after so many seconds."""

        async def limited() -> dict[str, int]:
            async with asyncio.timeout(timeout):
                return await self.tree.finished()

        return self._do(limited)

    def held_back(self, capabilities: Sequence[str] = ()) -> dict[str, int]:
        """As ``Tree.held_back``."""
        return self._do(self.tree.held_back, capabilities)

    def results(self) -> dict[str, Any]:
        """As ``Tree.results``."""
        return self._do(self.tree.results)

    def items(self) -> Iterator[dict[str, Any]]:
        """As ``Tree.items``."""
        return self._each(self.tree.items())

    def events(self, kinds: str | Sequence[str] = (), after: str = "") -> Iterator[dict[str, Any]]:
        """As ``Tree.events``."""
        return self._each(self.tree.events(kinds, after))

    def cancel(self) -> None:
        """As ``Tree.cancel``."""
        self._do(self.tree.cancel)


class SyncRun(_Thread):
    """A ``Run``."""

    def __init__(self, run: Run, portal: _Portal) -> None:
        super().__init__(portal)
        self._run = run
        self.id = run.id

    def result(self, timeout: float | None = None) -> Any:
        """As ``Run.result``; ``TimeoutError`` after so many seconds."""

        async def limited() -> Any:
            async with asyncio.timeout(timeout):
                return await self._run.result()

        return self._do(limited)

    def steps(self) -> Iterator[dict[str, Any]]:
        """As ``Run.steps``."""
        return self._each(self._run.steps())

    def approvals(self) -> Iterator[dict[str, Any]]:
        """As ``Run.approvals``."""
        return self._each(self._run.approvals())

    def approve(self, step: int) -> None:
        """As ``Run.approve``."""
        self._do(self._run.approve, step)

    def cancel(self) -> bool:
        """As ``Run.cancel``."""
        return self._do(self._run.cancel)


class SyncFleet(_Thread):
    """A ``Fleet``, as a context manager; the arguments are the same."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        slots: int = 1,
        **more: Any,
    ) -> None:
        self._fleet = Fleet(url, token, project, agent, slots, **more)
        self.url, self.project, self.agent = self._fleet.url, self._fleet.project, self._fleet.agent
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(_Portal())
            stack.enter_context(portal.own.wrap_async_context_manager(self._fleet))
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._portal.forked:
            self._stack.close()

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """As ``Fleet.call``."""
        return self._do(self._fleet.call, tool, arguments, **more)

    def jobs(self, **selection: Any) -> SyncJobs:
        """As ``Fleet.jobs``."""
        return SyncJobs(self._portal.own.call(partial(self._fleet.jobs, **_of_trees(selection))), self._portal)

    def work(
        self,
        handler: Callable[[SyncJob], object],
        *,
        slots: int | None = None,
        drain: float = 30.0,
        signals: bool = True,
        **selection: Any,
    ) -> None:
        """As ``Fleet.work``, with a thread for each slot. Work that is to end early has to look at ``job.lost``."""
        with ThreadPoolExecutor(max(slots or 1, self._fleet.slots), "fleet-work") as pool:
            at_work: set[Job] = set()

            async def in_thread(job: Job) -> None:
                at_work.add(job)
                task = asyncio.get_running_loop().run_in_executor(pool, _handled, handler, SyncJob(job, self._portal))
                try:
                    await asyncio.shield(task)
                except asyncio.CancelledError:
                    job.interrupt("the worker was stopped", "handed_back")
                    while not task.done():  # it is at work until it looks
                        with suppress(asyncio.CancelledError):
                            await asyncio.wait((task,))
                    task.result()
                    raise
                finally:
                    at_work.discard(job)

            def hurry() -> None:
                self._fleet.stop()
                for job in at_work:
                    job.interrupt("the worker was stopped", "handed_back")

            selection = {"slots": slots, "drain": drain, "signals": False, **_of_trees(selection)}
            work = partial(self._fleet.work, in_thread, **selection)
            with stopping(self.stop, _interrupt) if signals else nullcontext():
                try:
                    self._portal.own.call(work)
                except (KeyboardInterrupt, SystemExit):  # it came in this thread; the work goes on in the other
                    self._portal.own.start_task_soon(hurry)
                    raise

    def plan(self, plan: Mapping[str, Any] | str | Path, *, parent: str | None = None) -> SyncTree:
        """As ``Fleet.plan``."""
        return SyncTree(self._do(self._fleet.plan, plan, parent=parent), self._portal)

    def tree(self, item: str) -> SyncTree:
        """As ``Fleet.tree``."""
        return SyncTree(self._fleet.tree(item), self._portal)

    def flow(self, name: str, flow: Mapping[str, Any], input: Mapping[str, Any] | None = None, **more: Any) -> SyncRun:
        """As ``Fleet.flow``."""
        return SyncRun(self._do(self._fleet.flow, name, flow, input, **more), self._portal)

    def run(self, id: str) -> SyncRun:
        """As ``Fleet.run``."""
        return SyncRun(self._fleet.run(id), self._portal)

    def stop(self) -> None:
        """As ``Fleet.stop``, from any thread."""
        self._portal.own.start_task_soon(self._fleet.stop)


def _handled(handler: Callable[[SyncJob], object], job: SyncJob) -> None:
    """Calls a handler in a thread of the pool. A child process that comes back from it ends, as it would wait for
    further work of the pool, which nobody gives it."""
    process, code = os.getpid(), 0
    try:
        handler(job)
    except BaseException as error:
        if os.getpid() == process:
            raise
        code = 1
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = error.code or 0
        else:
            traceback.print_exception(error)
    if os.getpid() != process:
        sys.stdout.flush()
        os._exit(code)


def _of_trees(selection: dict[str, Any]) -> dict[str, Any]:
    until = selection.get("until")
    return {**selection, "until": until.tree} if isinstance(until, SyncTree) else selection


def _interrupt() -> None:
    raise KeyboardInterrupt
