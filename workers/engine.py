"""The engine of a worker: slots that execute steps concurrently, and the traffic with the store.

Every slot is a task that executes one attempt at a time. The reports of one turn of the event loop are sent together,
grouped by kind of run and project, and the reply to them brings the next steps. So a busy worker makes one round trip
for several steps. It asks the queues for work only when slots are empty: when a bell rings, and once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import tracing
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service
from coordinator.steps.metrics import RUNS_ENDED
from coordinator.steps.model import StepRun
from coordinator.steps.run_kind import RunKind
from coordinator.steps.store import NOT_RECORDED, RECORDED, REFUSED, RETURN, Report, StepStore, Taken
from coordinator.store.errors import StoreError
from coordinator.store.fences.known import Fenced
from workers.attempts import GRACE_SECONDS, Interruption, StepAttempt
from workers.metrics import STEP_DURATION, STEP_REPORTS_REFUSED, STEP_WAIT, STEPS

_log = structlog.get_logger(__name__)

FLUSH_AT = 8
"""As soon as this many reports wait, they are sent without waiting for the end of the event loop's turn."""
TAKE_MOST = 16
"""How many steps one call takes at most."""
TURN_SECONDS = 0.1
"""How long a worker prefers the successors of its own steps to steps from the queues. Long enough for the short steps
of a flow to run one after the other, short enough that no flow starves others."""
_PAUSE_FIRST, _PAUSE_MOST = 0.05, 1.0
SPECS_MOST = 4096
SPEC_BYTES_MOST = 64 * 1024 * 1024
"""How many specs of runs a worker keeps, and how many bytes of them."""


class Specs:
    """A cache of run specs in the form that planners work with. It drops the least recently used ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, step: StepRun) -> Any:
        kept = self._kept.get((step.project, step.run))
        if kept is None:
            return None
        self._kept.move_to_end((step.project, step.run))
        return kept[0]

    def put(self, step: StepRun, loaded: Any, size: int) -> None:
        """Keeps a spec, which is ``size`` bytes long in the store."""
        key = (step.project, step.run)
        self.drop(key)
        self._kept[key] = loaded, size
        self._bytes += size
        while len(self._kept) > SPECS_MOST or (self._bytes > SPEC_BYTES_MOST and len(self._kept) > 1):
            self.drop(next(iter(self._kept)))

    def drop(self, key: tuple[str, str]) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._bytes -= size


@dataclass(eq=False, slots=True)
class _Batch:
    """Reports that go to the store together."""

    run_kind: str
    project: str
    reports: list[tuple[Report, StepAttempt]] = field(default_factory=list)


class Engine(Service):
    """Executes steps in ``slots`` tasks.

    Args:
        steps: the store, as this worker.
        on_outbox: called with a project when its outbox has jobs for the relay to move.
        on_plain_job: called with the id and the queue of an RQ job that is not a step. The job occupies a slot until
            ``freed`` is called.
    """

    def __init__(
        self,
        steps: StepStore,
        kinds: Mapping[str, RunKind],
        slots: int,
        on_outbox: Callable[[str], None],
        on_plain_job: Callable[[str, str], None],
    ) -> None:
        self._steps = steps
        self._kinds = kinds
        self._slots = slots
        self._on_outbox = on_outbox
        self._on_plain_job = on_plain_job
        self.held: dict[str, StepAttempt] = {}
        """Running attempts by job id. The thread that renews leases reads it, too."""
        self._paused: set[str] = set()
        self._reply_lost = False
        self._queues_served = 0.0
        """When the queues were last served before the followers of this worker's own steps, by ``monotonic``."""
        self._draining = False
        self._busy = 0
        """How many steps run or are on their way into a slot, plus plain jobs."""
        self._asked = 0
        """How many steps the calls under way may bring."""
        self._waiting: deque[asyncio.Future[StepRun]] = deque()
        """Empty slots. Each waits until its future is given a step."""
        self._ready: deque[StepRun] = deque()
        """Steps that were taken for slots that are about to become empty."""
        self._unsent_batches: dict[tuple[str, str], _Batch] = {}
        """Reports that wait to be sent, by kind of run and project."""
        self._sending: list[_Batch] = []
        """Reports that were sent but not answered yet."""
        self._unsent = 0
        """How many reports wait to be sent."""
        self._flushing = False
        self._slot_tasks: set[asyncio.Task[None]] = set()
        self._store_calls: set[asyncio.Task[Any]] = set()
        """Calls under way that take steps or report outcomes."""
        self._free = asyncio.Event()
        self._specs = Specs()
        self._tracing = tracing.active()
        self._warn = ThrottledWarnings()

    async def start(self) -> None:
        for _ in range(self._slots):
            self._add_slot()

    @property
    def busy(self) -> int:
        """How many slots are occupied, or will be in a moment."""
        return self._busy

    # --- work comes in ----------------------------------------------------------------------------

    def want(self) -> int:
        """How many steps to ask the queues for now: one for each empty slot that no report is about to fill."""
        return max(0, self._capacity() - self._unsent)

    def _capacity(self) -> int:
        """How many steps the free slots can take, not counting those that calls under way may bring."""
        if self._paused or self._draining:
            return 0
        return max(0, min(self._slots - self._busy - self._asked, TAKE_MOST))

    async def wait_for_capacity(self) -> None:
        while self.want() == 0:
            self._free.clear()
            await self._free.wait()

    async def take(self, source: Callable[[int], Awaitable[Taken]]) -> int:
        """Fills empty slots from ``source``, which is called with the number of steps wanted. Returns how many came.

        Raises:
            ToolFailure: the store does not answer.
        """
        want = self.want()
        if not want:
            return 0
        self._asked += want
        # The task goes on if this call is cancelled: the steps that it brings are leased to this worker already.
        task = asyncio.get_running_loop().create_task(self._fetch(source, want), name="step-take")
        self._store_calls.add(task)
        task.add_done_callback(self._store_calls.discard)
        return await asyncio.shield(task)

    async def _fetch(self, source: Callable[[int], Awaitable[Taken]], want: int) -> int:
        try:
            taken = await source(want)
        except (ToolFailure, StoreError):
            self._reply_lost = True
            raise
        finally:
            self._asked -= want
            self._free.set()
        self.deliver(taken)
        return len(taken.steps) + len(taken.plain_jobs)

    def deliver(self, taken: Taken) -> None:
        for step in taken.steps:
            if step.spec:
                try:
                    self._keep_spec(step, taken.specs[step.spec - 1])
                except Exception:
                    # The attempt will get the same error and fail with it.
                    _log.exception("the spec of a run cannot be read", run=step.run)
            self._busy += 1
            STEP_WAIT.observe((taken.now - step.ready_at) / 1000)
            while self._waiting:
                slot = self._waiting.popleft()
                if not slot.done():
                    slot.set_result(step)
                    break
            else:
                self._ready.append(step)
        for job in taken.plain_jobs:
            self._busy += 1
            self._on_plain_job(job.id, job.queue)

    def freed(self) -> None:
        """Frees the slot of a plain job that is over."""
        self._busy -= 1
        self._free.set()

    @property
    def paused(self) -> bool:
        """Whether the worker takes no steps for now."""
        return bool(self._paused)

    def pause(self, reason: str, paused: bool) -> None:
        """Sets or clears a reason to take no steps. Steps are taken while there is no reason."""
        (self._paused.add if paused else self._paused.discard)(reason)
        self._free.set()

    def held_in(self, project: str) -> list[str]:
        """The steps of a project that run, or whose outcome is being reported."""
        batches = [batch for batch in (*self._unsent_batches.values(), *self._sending) if batch.project == project]
        reported = [report.step for batch in batches for report, _ in batch.reports]
        held = [attempt.step for attempt in self.held.values()] + [*self._ready]
        return [*reported, *(step.step for step in held if step.project == project)]

    def lost_reply(self) -> bool:
        """Whether a reply that may have brought steps was lost since the last call."""
        lost, self._reply_lost = self._reply_lost, False
        return lost

    def lost_reply_of_store(self) -> None:
        """Notes that a reply which may have brought steps was lost."""
        self._reply_lost = True

    # --- attempts ---------------------------------------------------------------------------------

    def interrupt(self, job: str, why: Interruption) -> bool:
        """Interrupts an attempt. Returns whether it runs here."""
        attempt = self.held.get(job)
        if attempt is not None:
            attempt.interrupt(why)
        return attempt is not None

    def _add_slot(self) -> None:
        task = asyncio.get_running_loop().create_task(self._slot(), name="step-slot")
        self._slot_tasks.add(task)
        task.add_done_callback(self._slot_tasks.discard)

    async def _slot(self) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        loop = task.get_loop()
        while True:
            if self._ready:
                step = self._ready.popleft()
            else:
                waiter: asyncio.Future[StepRun] = loop.create_future()
                self._waiting.append(waiter)
                step = await waiter
            attempt = StepAttempt(step, self._kinds.get(step.run_kind), task, self._abandon)
            job = step.job_id
            if job in self.held:
                # The store has lost its last writes and offers an attempt that already runs here.
                self.held[job].interrupt("lost")
            self.held[job] = attempt
            if self._tracing is not None:
                attempt.span = self._tracing.step(
                    step.run_kind, step.project, step.run, step.step, step.key, step.attempt, step.trace
                )
            try:
                if self._draining:
                    report: Report | None = attempt.returned(0)
                else:
                    report = await attempt.run(self._specs.get(step), self._load)
            except Exception:
                _log.exception("a step could not be carried out", step=job)
                report = attempt.returned()
            finally:
                if not attempt.abandoned:
                    self._drop(attempt)
                if attempt.span is not None:
                    attempt.span.end(attempt.outcome)
                    attempt.span.leave()
            if attempt.abandoned:
                return
            self._ended(attempt, report)

    async def _load(self, step: StepRun) -> Any:
        """Reads the spec of a step's run from the store, until the store answers."""
        while True:
            try:
                raw = await self._steps.spec(step.project, step.run)
            except ToolFailure as failure:
                if isinstance(failure, Fenced) and failure.for_good:
                    return None
                await asyncio.sleep(_PAUSE_MOST)
            else:
                return None if raw is None else self._keep_spec(step, raw)

    def _keep_spec(self, step: StepRun, raw: bytes) -> Any:
        kind = self._kinds.get(step.run_kind)
        if kind is None or raw is None:
            return None
        loaded = kind.planner.load(raw)
        self._specs.put(step, loaded, len(raw))
        return loaded

    def _abandon(self, attempt: StepAttempt) -> None:
        """Gives up a hung attempt: reports for it, and adds a slot to replace the one that it blocks."""
        _log.error("an attempt did not end when it was told to", step=attempt.step.job_id, why=attempt.interrupted)
        self._drop(attempt)
        self._add_slot()
        report = attempt.cut_short(self._specs.get(attempt.step))
        if attempt.span is not None:
            attempt.span.end(attempt.outcome)
        self._ended(attempt, report)

    def _drop(self, attempt: StepAttempt) -> None:
        if self.held.get(attempt.step.job_id) is attempt:
            del self.held[attempt.step.job_id]

    def _ended(self, attempt: StepAttempt, report: Report | None) -> None:
        step = attempt.step
        self._busy -= 1
        self._free.set()
        STEPS.labels(attempt.outcome).inc()
        STEP_DURATION.observe(monotonic() - attempt.began)
        if report is None:
            return
        if report.ends_run:
            self._specs.drop((step.project, step.run))
        key = (step.run_kind, step.project)
        batch = self._unsent_batches.get(key)
        if batch is None:
            batch = self._unsent_batches[key] = _Batch(*key)
        batch.reports.append((report, attempt))
        self._unsent += 1
        if len(batch.reports) >= FLUSH_AT:
            self._send(self._unsent_batches.pop(key))
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    # --- reports go out ---------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flushing = False
        waiting, self._unsent_batches = self._unsent_batches, {}
        for batch in waiting.values():
            self._send(batch)

    def _send(self, batch: _Batch) -> None:
        self._unsent -= len(batch.reports)
        want = self._capacity()
        self._asked += want
        task = asyncio.get_running_loop().create_task(self._report(batch, want), name="step-report")
        self._store_calls.add(task)
        task.add_done_callback(self._store_calls.discard)

    async def _report(self, batch: _Batch, want: int) -> None:
        """Reports outcomes, then delivers the steps that the answer brings."""
        self._sending.append(batch)
        spans = [attempt.span for _, attempt in batch.reports if attempt.span is not None]
        reporting = self._tracing.reporting(spans) if self._tracing is not None and spans else None
        taken, repeated = await self._recorded(batch, want)
        self._sending.remove(batch)
        if reporting is not None:
            reporting.forget()
        for (report, attempt), result in zip(batch.reports, taken.results, strict=True):
            if result == RECORDED and report.ends_run:
                RUNS_ENDED.labels(batch.run_kind, "completed" if report.follows.complete else "failed").inc()
            elif result == NOT_RECORDED:
                _log.error("an outcome could not be recorded", step=attempt.step.job_id)
            elif result == REFUSED and not repeated:
                STEP_REPORTS_REFUSED.inc()
                _log.info("a report came too late and was refused", step=attempt.step.job_id)
        self._asked -= want
        self.deliver(taken)
        self._free.set()
        if taken.to_relay:
            self._on_outbox(batch.project)

    async def _recorded(self, batch: _Batch, want: int) -> tuple[Taken, bool]:
        """Sends reports until the store answers.

        Returns:
            The answer, and whether the reports were sent more than once. If so, a refusal may only mean that the
            outcome was recorded the first time.
        """
        # Steps of a kind of run that this worker does not know are given back.
        script = self._kinds[batch.run_kind].report if batch.run_kind in self._kinds else RETURN
        reports = [report for report, _ in batch.reports]
        pause, repeated = _PAUSE_FIRST, False
        while True:
            now = monotonic()
            queue_first = now - self._queues_served > TURN_SECONDS
            if queue_first:
                self._queues_served = now
            try:
                taken = await self._steps.report(script, batch.project, want, reports, queue_first=queue_first)
            except ToolFailure as failure:
                if isinstance(failure, Fenced) and failure.for_good:  # the steps get other attempts where it is now
                    return Taken(0, [NOT_RECORDED] * len(reports), [], [], False), repeated
                self._reply_lost = repeated = True
                self._warn("report", "outcomes cannot be reported, trying again", reason=failure.message)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _PAUSE_MOST)
            except Exception:
                # A defect of ours. The leases run out, and the steps get other attempts.
                _log.exception("outcomes cannot be recorded")
                return Taken(0, [NOT_RECORDED] * len(reports), [], [], False), repeated
            else:
                return taken, repeated

    # --- the end ----------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Waits until all steps are done and reported, then ends the slots."""
        await self._emptied(None)
        await self.end()

    async def stop(self, deadline: float = 0.0) -> None:
        """Takes no more steps, and gives back the attempts that do not end in time; returns when all is reported."""
        self._draining = True
        await self._emptied(max(deadline - asyncio.get_running_loop().time(), 0.0))
        for attempt in list(self.held.values()):
            attempt.interrupt("drain")
        await self._emptied(GRACE_SECONDS)
        await self.end()

    async def end(self) -> None:
        """Ends the slots, without waiting for what is in hand and without reporting it."""
        tasks = [*self._slot_tasks, *self._store_calls]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    @property
    def stuck(self) -> bool:
        """Whether attempts still run that ignored their interruption."""
        return bool(self._slot_tasks)

    async def _emptied(self, seconds: float | None) -> None:
        """Waits until no step runs and no report is left to send; at most ``seconds``, None: without limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._busy or self._unsent_batches or self._store_calls:
                    if self._store_calls:
                        await asyncio.wait(self._store_calls)
                    elif self._busy:
                        self._free.clear()
                        await self._free.wait()
                    else:
                        await asyncio.sleep(0)
