"""Claims items, gives each an attempt, and tells the fleet what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coordinator.client import ClaimLost, Denied, Fleet, FleetError, Invalid, JobStopped, Unavailable
from coordinator.client.held_back import described
from coordinator.client.job import Job
from coordinator.client.jobs import Jobs
from coordinator.runner import commands, records
from coordinator.runner.breaker import Breaker
from coordinator.runner.metrics import ATTEMPTS, COST, DURATION, PAUSED, RUNNING
from coordinator.runner.options import Options
from coordinator.runner.outcomes import STOPPING, Kind, Outcome
from coordinator.runner.protocols import Workspaces
from coordinator.runner.records import NoRoom, RunRecord
from coordinator.runner.reports.telling import AGAIN_SECONDS, access_of, keep_telling, own_report, tell
from coordinator.runner.reports.untold import keep_telling as keep_telling_untold
from coordinator.runner.reports.untold import tell_untold
from coordinator.runner.reports.usage import RunNote, words_of
from coordinator.runner.stages import AttemptRun
from coordinator.units import money

_ROOM_SECONDS = 30.0
"""How long claiming pauses when there is no room for logs."""
_LAST_SECONDS = 10.0
"""How long a runner that ends tells what attempts have used whose claims were lost."""
EXPLAINED_SECONDS = 45.0
"""Why nothing is offered is not said again before. (Claims wait for less than a minute.)"""
_WAIT_MS = 49_000
_NEVER = float("inf")
_WORDS: Mapping[Kind, str] = {
    "done": "done",
    "later": "handed back",
    "failed": "failed",
    "hopeless": "quarantined",
    "blocked": "blocked",
    "broken": "handed back",
    "lost": "lost",
}


class Runner:
    """Runs attempts until it is stopped, its work is over, or it is broken; ``say`` gets lines about it."""

    def __init__(self, fleet: Fleet, options: Options, workspaces: Workspaces, say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._options = options
        self._workspaces = workspaces
        self._say = say
        self._breaker = Breaker(time.monotonic)
        self._began = time.monotonic()
        self._runs: set[AttemptRun] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        self._changed = asyncio.Event()
        self._items = 0
        """Attempts that count for --max-items and have ended."""
        self._stops = 0
        self._why = ""
        """Why no further item is claimed; empty: they are."""
        self._paused = ""
        self._explained = -_NEVER
        """When it was said why nothing is offered."""
        self.cost = 0.0
        self.broken = ""
        """Why it cannot go on: the fault is not that of an item. Empty: it is not broken."""

    def stop(self) -> None:
        """Claims no more, and ends when commands have, at the latest after the drain; called again, kills them."""
        self._stops += 1
        self._end("told to stop")
        if self._stops == 2:
            self._say("killing the commands that run")
            for run in self._runs:
                run.kill()

    async def run(self) -> None:
        """Works.

        Raises:
            FleetError: the fleet refuses this runner, as when its token is not good for claims.
            NoRoom: logs cannot be kept.
            WorkspaceFailed: no workspace can ever be made.
            CannotStart: the command cannot be started, or one that runs beside it.
        """
        fleet, state = self._fleet, self._options.state
        await asyncio.to_thread(records.prepare, state)
        for notice in await self._workspaces.start():
            self._say(notice)
        await asyncio.to_thread(commands.check, self._options, self._workspaces)
        with records.alone(state, f"{fleet.url} {fleet.project}", fleet.agent):
            await self._work()

    async def _work(self) -> None:
        chosen, jobs = self._options.selection, None
        state, most = self._options.state, self._options.usage_per_attempt
        untold = asyncio.create_task(keep_telling_untold(self._fleet, state, most, self._say))
        try:
            jobs = self._fleet.jobs(
                tags=chosen.tags,
                type=chosen.type,
                priority=chosen.priority,
                parent=chosen.parent,
                ancestor=chosen.ancestor,
                capabilities=chosen.capabilities,
                ttl=self._options.ttl,
                grace=sum(self._options.grace) + 1,
                raises=True,
                until=None if chosen.until_tree is None else self._tree_finished,
            )
            jobs.got_nothing = partial(self._explain, jobs)
            while await self._may_claim():
                if (job := await self._next(jobs)) is not None:
                    self._begin(job)
        finally:
            if jobs is not None:
                jobs.end()
            await self._drain()
            untold.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await tell_untold(self._fleet, state, most, self._say)

    async def _tree_finished(self) -> None:
        wanted = {"itemId": self._options.selection.until_tree, "waitFor": "tree_terminal", "waitMs": _WAIT_MS}
        while True:
            with contextlib.suppress(Unavailable):  # front-ends restart: the tree may go on for days
                if (await self._fleet.call("get_context", wanted))["waited"]["met"]:
                    return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _may_claim(self) -> bool:
        """Waits until a further item may be claimed; False: none may ever be."""
        options = self._options
        while not self._why:
            self._changed.clear()
            left = options.max_time - (time.monotonic() - self._began) if options.max_time else _NEVER
            wait, why = 0.0, ""
            if left <= 0:
                self._end("--max-time is over")
            elif options.max_cost and self.cost >= options.max_cost:
                self._end(f"--max-cost is reached: {money(round(self.cost * 1e6))}")
            elif options.max_items and self._items >= options.max_items:
                self._end("--max-items is reached")
            elif self._working >= options.slots or self._full():
                wait = _NEVER
            elif self._breaker.open:
                wait, why = self._breaker.wait(), self._breaker.reason
            else:
                try:
                    await asyncio.to_thread(records.check_room, options.state)
                except NoRoom as error:
                    wait, why = _ROOM_SECONDS, str(error)
            if self._why:
                return False
            self._show_pause(why, wait)
            if not wait:
                return True
            await self._change(min(wait, left))
        return False

    def _show_pause(self, why: str, wait: float) -> None:
        if why == self._paused or wait == _NEVER:
            return
        self._paused = why
        self._show()
        self._say(f"claiming pauses for {wait:.0f} s: {why}" if why else "claiming goes on")

    def _show(self) -> None:
        RUNNING.set(self._working)
        PAUSED.set(bool(self._paused))

    async def _change(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == _NEVER else seconds):
                await self._changed.wait()

    async def _next(self, jobs: Any) -> Job | None:
        """The next job; None: there is to be none for now."""
        self._breaker.claiming()
        options = self._options
        coming: asyncio.Task[Job] = asyncio.create_task(anext(jobs), name="claim")
        try:
            while not coming.done():
                self._changed.clear()
                changed = asyncio.create_task(self._changed.wait())
                left = options.max_time - (time.monotonic() - self._began) if options.max_time else None
                await asyncio.wait({coming, changed}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if not coming.done() and (self._why or self._breaker.wait() not in (0.0, _NEVER) or self._full()):
                    break
                if left is not None and left <= 0:
                    break
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
        if coming.cancelled():
            self._breaker.idle()
            return None
        try:
            return coming.result()
        except StopAsyncIteration:
            self._breaker.idle()
            tree = self._options.selection.until_tree
            self._end(f"the tree of {tree} is finished" if tree else "there is no more to do")
            return None

    def _explain(self, jobs: Jobs) -> None:
        """Says why nothing is offered: a line when the runner becomes idle, and one a minute as long as it is."""
        why = described(jobs.held_back)
        if why and not self._working and time.monotonic() >= self._explained + EXPLAINED_SECONDS:
            self._explained = time.monotonic()
            self._say(f"nothing is offered: {why}")

    def _goes_on(self, cost: float) -> bool:
        """Whether another attempt is to follow one that ends now and has cost so much."""
        return not (self._why or self._breaker.open or self._full(cost))

    def _full(self, cost: float = 0.0) -> bool:
        most = self._options.max_items
        over = 0.0 < self._options.max_cost <= self.cost + cost
        return over or (bool(most) and self._items + self._working >= most)

    def _begin(self, job: Job) -> None:
        self._working += 1
        self._explained = -_NEVER
        self._show()
        task = asyncio.create_task(self._attempt(job), name=f"attempt {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._working -= 1
        self._show()
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = self.broken or f"a defect of the runner: {type(error).__name__}: {error}"
            self._end(self.broken)

    async def _attempt(self, job: Job) -> None:
        """Takes a job through its attempt. Whatever happens, nothing of the command is left afterwards."""
        name, began = job.id[:8], time.monotonic()
        run: AttemptRun | None = None
        record: RunRecord | None = None
        reported = True
        outcome = Outcome("lost", "the claim was lost")
        try:
            async with job:
                if self._why:
                    await job.hand_back(untouched=True)
                    outcome = Outcome("later", STOPPING)
                    return
                keys = {str(note.get("key")) for note in job.notes}
                try:
                    access = await access_of(self._fleet, job, self._options)
                    record = await asyncio.to_thread(
                        records.begin, self._options.state, job.id, job.title, job.attempt, keys
                    )
                    run = AttemptRun(job, record, self._options, access, self._workspaces, self._says(name))
                except (OSError, NoRoom, Denied, Invalid) as error:
                    outcome = _not_begun(error)
                    await job.hand_back(untouched=True)
                    return
                self._runs.add(run)
                if self._stops > 1:
                    run.kill()
                reported, job.stopping = False, run.spent
                attempt = record.attempt
                most, key = self._options.usage_per_attempt, f"run-{attempt.label}"
                note = RunNote(self._fleet, job.id, key, attempt.run_id, job.agent, most, job.role)
                self._say(
                    f"{name} begins: {job.title} (attempt {record.attempt.label}, logs in {record.attempt.directory})"
                )
                telling = asyncio.create_task(keep_telling(job, note, run))
                try:
                    report = await run.run()
                finally:
                    telling.cancel()
                    job.stopping = _nothing_to_end
                outcome = await tell(
                    job, note, report, self._options, self._say, partial(self._goes_on, run.cost or 0.0)
                )
                reported = True
                if note.refused:
                    self._say(f"{name} {words_of(note.refused)} above --usage-per-attempt are not counted")
        except ClaimLost as error:
            outcome = await own_report(job) or outcome
            if outcome.kind == "lost":
                self._say(f"{name} the claim is lost: {error.message}")
        except JobStopped as error:  # before there was a command
            outcome = Outcome("later", error.message)
        except FleetError as error:
            outcome = Outcome("failed", f"the fleet refuses what is said about it: {error.message}")
        finally:
            fate = ""
            if run is not None:
                self._runs.discard(run)
                fate = await run.close(outcome.kind == "done")
            if record is not None:
                record.close(reported=reported)
            self._ended(name, outcome, None if run is None else run.cost, fate, began)

    def _ended(self, name: str, outcome: Outcome, cost: float | None, fate: str, began: float) -> None:
        seconds = time.monotonic() - began
        self.cost += cost or 0.0
        if outcome.kind in ("done", "failed", "hopeless", "blocked"):
            self._items += 1
        words = [f"{name} {_WORDS[outcome.kind]} after {seconds:.0f} s"]
        words += [money(round(cost * 1e6))] if cost is not None else []
        words += [part for part in (outcome.reason, fate and f"workspace {fate}") if part]
        self._say(": ".join((words[0], "; ".join(words[1:]))) if words[1:] else words[0])
        ATTEMPTS.labels(outcome.kind).inc()
        DURATION.observe(seconds)
        COST.inc(cost or 0.0)
        self._breaker.record(outcome, began)
        if outcome.kind == "broken":
            self.broken = self.broken or outcome.reason
            self._end(f"the runner is broken: {outcome.reason}")

    def _says(self, name: str) -> Callable[[str], None]:
        return lambda words: self._say(f"{name} {words}")

    def _end(self, why: str) -> None:
        if not self._why:
            self._why = why
            self._say(f"no further items: {why}")
        self._changed.set()

    async def _drain(self) -> None:
        """Waits for the attempts that run, at most for the drain time if the runner was told to stop."""
        if self._tasks and self._stops == 0 and not self.broken:
            await self._idle(_NEVER)
        if self._tasks and not await self._idle(self._options.drain):
            self._say(f"ending the commands that run after {self._options.drain:.0f} s")
            for run in list(self._runs):
                run.stop("drain")
            await self._idle(_NEVER)

    async def _idle(self, seconds: float) -> bool:
        """Waits until no attempt runs; False: not within the time. A stop ends a wait without end."""
        deadline = time.monotonic() + seconds
        stops = self._stops
        while self._tasks:
            left = deadline - time.monotonic()
            if left <= 0 or (seconds == _NEVER and stops == 0 and self._stops):
                return False
            self._changed.clear()
            await self._change(min(left, _NEVER))
        return True


def _nothing_to_end(_why: str) -> None:
    """A budget is spent when the command has ended."""


def _not_begun(error: Exception) -> Outcome:
    """What comes of an attempt that could not begin."""
    if isinstance(error, FleetError):
        return Outcome("broken", f"no token for --mcp: {error.message}")
    why = str(error) if isinstance(error, NoRoom) else f"logs cannot be kept: {error}"
    return Outcome("later", why, pauses=True)
