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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal

from coordinator.client.calls import ONE_EACH
from coordinator.client.fleet import Fleet
from coordinator.client.flows import Run
from coordinator.client.job import Job
from coordinator.client.jobs import Jobs
from coordinator.client.slot import Outcome
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
        """Calls into the loop. Raises RuntimeError: this is a child process."""
        if self.forked:
            raise RuntimeError(f"this client was opened in another process ({self._process}): {ONE_EACH}")
        return self._portal


class _Twin:
    """What has the methods of ``of``, which runs in the thread, for callers outside."""

    def __init__(self, of: Any, portal: _Portal) -> None:
        self._of, self._portal = of, portal

    def _do(self, work: Callable[P, Awaitable[T]], *args: P.args, **more: P.kwargs) -> T:
        return self._portal.own.call(partial(work, *args, **more))

    def _within(self, seconds: float | None, work: Callable[[], Awaitable[T]]) -> T:
        async def limited() -> T:
            async with asyncio.timeout(seconds):
                return await work()

        return self._do(limited)

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> list[T]:
            async for item in items:
                return [item]
            return []

        while items_of_turn := self._portal.own.call(following):
            yield from items_of_turn


def _waited(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that waits for this one of the twin."""

    @wraps(method)
    def call(self: _Twin, /, *args: P.args, **more: P.kwargs) -> T:
        return self._do(partial(method, self._of), *args, **more)

    return call


def _listed(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """A method that gives what this one of the twin does, one after the other."""

    @wraps(method)
    def call(self: _Twin, /, *args: P.args, **more: P.kwargs) -> Iterator[T]:
        return self._each(method(self._of, *args, **more))

    return call


class SyncJob(_Twin):
    """A ``Job``, as a context manager around the work on it."""

    _of: Job

    def __init__(self, job: Job, portal: _Portal) -> None:
        super().__init__(job, portal)
        self.item, self.notes, self.results = job.item, job.notes, job.results
        self.id, self.title, self.description = job.id, job.title, job.description
        self.attempt, self.takeover, self.fence, self.agent, self.needs = (
            job.attempt, job.takeover, job.fence, job.agent, job.needs,
        )  # fmt: skip

    @property
    def role(self) -> str:
        return self._of.role

    @property
    def outcome(self) -> Outcome | None:
        return self._of.outcome

    @property
    def error(self) -> BaseException | None:
        return self._of.error

    @property
    def stop_reason(self) -> str | None:
        return self._of.stop_reason

    @property
    def lost(self) -> bool:
        """Whether the work has to end: its claim is lost, or is being given back."""
        return self._of.lost

    def check(self) -> None:
        """Raises ``ClaimLost`` if the work has to end; ``JobStopped`` if that is because a budget is spent."""
        self._of.check()

    def usage(self, **used: Any) -> None:
        self._portal.own.call(partial(self._of.usage, **used))

    call = _waited(Job.call)
    note = _waited(Job.note)
    take = _waited(Job.take)
    progress = _waited(Job.progress)
    done = _waited(Job.done)
    fail = _waited(Job.fail)
    give_up = _waited(Job.give_up)
    quarantine = _waited(Job.quarantine)
    hand_back = _waited(Job.hand_back)
    block = _waited(Job.block)
    ask = _waited(Job.ask)

    def __enter__(self) -> Self:
        self._portal.own.call(self._of.enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # In a child process, the work goes on in the one that has claimed it.
        return not self._portal.forked and self._do(self._of.__aexit__, kind, error, trace)


class SyncJobs(_Twin, Iterator[SyncJob]):
    """``Jobs``, an iterator."""

    _of: Jobs

    def __init__(self, jobs: Jobs, portal: _Portal) -> None:
        super().__init__(jobs, portal)
        self._coming = self._each(jobs)

    def __next__(self) -> SyncJob:
        return SyncJob(next(self._coming), self._portal)

    @property
    def held_back(self) -> dict[str, int]:
        return self._of.held_back


class SyncTree(_Twin):
    """A ``Tree``."""

    def __init__(self, tree: Tree, portal: _Portal) -> None:
        super().__init__(tree, portal)
        self.tree = tree
        self.id, self.ids = tree.id, tree.ids

    def finished(self, timeout: float | None = None) -> dict[str, int]:
        """As ``Tree.finished``; ``TimeoutError`` after so many seconds."""
        return self._within(timeout, self.tree.finished)

    held_back = _waited(Tree.held_back)
    results = _waited(Tree.results)
    items = _listed(Tree.items)
    events = _listed(Tree.events)
    cancel = _waited(Tree.cancel)


class SyncRun(_Twin):
    """A ``Run``."""

    _of: Run

    def __init__(self, run: Run, portal: _Portal) -> None:
        super().__init__(run, portal)
        self.id = run.id

    def result(self, timeout: float | None = None) -> Any:
        """As ``Run.result``; ``TimeoutError`` after so many seconds."""
        return self._within(timeout, self._of.result)

    steps = _listed(Run.steps)
    approvals = _listed(Run.approvals)
    approve = _waited(Run.approve)
    cancel = _waited(Run.cancel)


class SyncFleet(_Twin):
    """A ``Fleet``, as a context manager; the arguments are the same."""

    _of: Fleet

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        slots: int = 1,
        **more: Any,
    ) -> None:
        self._of = Fleet(url, token, project, agent, slots, **more)
        self.url, self.project, self.agent = self._of.url, self._of.project, self._of.agent
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(_Portal())
            stack.enter_context(portal.own.wrap_async_context_manager(self._of))
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._portal.forked:
            self._stack.close()

    call = _waited(Fleet.call)

    def jobs(self, **selection: Any) -> SyncJobs:
        return SyncJobs(self._portal.own.call(partial(self._of.jobs, **_of_trees(selection))), self._portal)

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
        with ThreadPoolExecutor(max(slots or 1, self._of.slots), "fleet-work") as pool:
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
                self._of.stop()
                for job in at_work:
                    job.interrupt("the worker was stopped", "handed_back")

            selection = {"slots": slots, "drain": drain, "signals": False, **_of_trees(selection)}
            work = partial(self._of.work, in_thread, **selection)
            with stopping(self.stop, _interrupt) if signals else nullcontext():
                try:
                    self._portal.own.call(work)
                except (KeyboardInterrupt, SystemExit):  # it came in this thread; the work goes on in the other
                    self._portal.own.start_task_soon(hurry)
                    raise

    def plan(self, plan: Mapping[str, Any] | str | Path, *, parent: str | None = None) -> SyncTree:
        return SyncTree(self._do(self._of.plan, plan, parent=parent), self._portal)

    def tree(self, item: str) -> SyncTree:
        return SyncTree(self._of.tree(item), self._portal)

    def flow(self, name: str, flow: Mapping[str, Any], input: Mapping[str, Any] | None = None, **more: Any) -> SyncRun:
        return SyncRun(self._do(self._of.flow, name, flow, input, **more), self._portal)

    def run(self, id: str) -> SyncRun:
        return SyncRun(self._of.run(id), self._portal)

    def stop(self) -> None:
        """As ``Fleet.stop``, from any thread."""
        self._portal.own.start_task_soon(self._of.stop)


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
