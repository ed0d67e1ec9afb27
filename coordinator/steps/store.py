"""Typed calls of the scripts of steps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from coordinator.steps import times
from coordinator.steps.handoff import RQ_PREFIX, Handoff
from coordinator.steps.model import StepRun
from coordinator.store import Library, Script, Store, keys
from coordinator.store.fences.known import Fenced
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.projects.lists import ProjectList
from coordinator.store.scripts import decoded

LIBRARY = Library("coordinator.steps")
REFUSED, RECORDED, OVER, NOT_RECORDED = 0, 1, 2, -1
"""Results of a report. REFUSED: the step was no longer this worker's. RECORDED. OVER: recorded, but its run had ended.
NOT_RECORDED: a defect; the step's lease will run out."""

RELAYED = 100
"""How many jobs one turn of the relay moves."""
_WAKEUPS_MOST = 100
"""How many projects the list of wake-ups holds."""

DONE, FAILED, RETRIED, GIVEN_BACK = "D", "F", "Y", "B"
"""How an attempt has ended. DONE, FAILED: for good. RETRIED: failed, and another attempt follows. GIVEN_BACK: it was
not executed, or not to its end."""


class Report(NamedTuple):
    """A worker's report of one attempt."""

    step: str
    attempt: int
    how: str
    """``DONE``, ``FAILED``, ``RETRIED`` or ``GIVEN_BACK``."""
    result: str
    """As JSON."""
    follows: Any
    """For DONE and FAILED a plan; else the time until the step is offered again, in ms, or for GIVEN_BACK the queue of
    the worker that is to have it."""

    @property
    def ends_run(self) -> bool:
        return self.how in (DONE, FAILED) and bool(self.follows.complete or self.follows.error)


class QueuedJob(NamedTuple):
    """An RQ job and the queue that it is in, or belongs in."""

    id: str
    queue: str


class Taken(Struct, array_like=True):
    """What a worker gets when it takes steps or reports."""

    now: int
    results: list[int]
    """Of each report; the script's header says what its numbers mean."""
    steps: list[StepRun]
    plain_jobs: list[QueuedJob]
    """RQ jobs that are not steps. They are in their queue's intermediate list."""
    to_relay: bool
    """Whether jobs were written to the project's outbox, from which a relay moves them to the queues."""
    specs: list[bytes] = []
    """Specs of runs; ``StepRun.spec`` is a position in it, from 1."""


class Swept(Struct, array_like=True):
    """The result of a sweep of a project."""

    lost: int
    """How many steps had an expired lease, because their worker was lost."""
    fired: int
    """How many steps were due: delays, backoff, expiry of gates."""
    suspects: list[QueuedJob]
    """The jobs of steps that have waited for a worker for ``times.JOB_CHECK_MS``: they may have vanished."""
    to_relay: bool
    """Whether there are jobs in the project's outbox."""
    running: int
    queued: int
    """Steps that wait in queues."""
    idle: bool
    """Whether the project no longer needs to be swept."""
    more: bool
    """Whether there is more to do at once."""


class Popped(NamedTuple):
    """A job taken from a queue outside the store; ``project`` is empty if it is not a step."""

    project: str
    job: str
    queue: str


_TAKE = Script(LIBRARY, "take_steps", scope="queue")
_BEGIN = Script(LIBRARY, "begin_steps")
_SWEEP = Script(LIBRARY, "sweep_steps", Swept)
_WAKE_RELAY: Script[Any] = Script(LIBRARY, "wake_relay", scope="fleet")
_RECLAIM = Script(LIBRARY, "reclaim_steps", None)
RETURN = Script(LIBRARY, "return_steps")
"""Gives back steps of a kind of run that the worker does not know; they are offered again."""
_PUSH = Script(LIBRARY, "push_jobs", None, scope="queue")
_WAITING = Script(LIBRARY, "waiting_steps", list[str])
_POP = Script(LIBRARY, "pop_jobs", list[Popped], scope="queue")
_POPPED = Script(LIBRARY, "popped_jobs", list[Popped], scope="queue")
RENEW = Script(LIBRARY, "renew_leases")

_ENTRY = re.compile(rb"(?P<queue>[\w.-]+) (?P<id>[\w-]+-\w+-\d+)")
"""An entry of an outbox."""
_taken = msgspec.msgpack.Decoder(Taken).decode
_pack = msgspec.msgpack.Encoder().encode


def _read(reply: list[bytes]) -> Taken:
    taken: Taken = decoded(_taken, reply[0])
    if len(reply) > 1:
        taken.specs = reply[1:]
    return taken


class StepStore:
    """Steps of any project, as a worker or a relay needs them.

    Every method raises ToolFailure ``store_unavailable`` and the like as ``Store.run`` says.

    Args:
        store: where the steps are.
        queue: where RQ's queues are; None: there too, or this process does not use them.
    """

    def __init__(self, store: Store, handoff: Handoff, queue: Store | None = None) -> None:
        self.store = self._store = store
        self._queue = queue or store
        self._leader_leases = LeaderLeases(store)
        self.handoff = handoff
        self.projects = ProjectList(store, "steps")
        """Those that have steps or finished runs: they are swept."""

    async def take(self, want: int) -> Taken:
        """Takes up to ``want`` steps of any project from queues in the store's Redis."""
        return _read(await self._store.run(_TAKE, keys.QUEUE, self.handoff.packed(keys.QUEUE), want))

    async def report(
        self, script: Script[Any], project: str, want: int, reports: Sequence[Report], *, queue_first: bool = False
    ) -> Taken:
        """Reports outcomes of steps of one kind of runs and one project, and takes the next ones.

        Args:
            queue_first: take what waits in the queues before what follows the reported steps.
        """
        turn = "queue" if queue_first else "own"
        return _read(await self._store.run(script, project, self.handoff.packed(project), want, turn, _pack(reports)))

    async def begin(self, project: str, jobs: Iterable[str]) -> Taken:
        """Takes the steps that these jobs point to."""
        return _read(await self._store.run(_BEGIN, project, self.handoff.packed(project), *jobs))

    async def spec(self, project: str, run: str) -> bytes | None:
        """What a run was created with; None: the run is gone."""
        spec: bytes | None = await self._store.command("GET", keys.run_spec.key(project, run))
        return spec

    async def sweep(self, project: str) -> Swept:
        """Handles what is due in a project."""
        return await self._store.run(
            _SWEEP, project, self.handoff.packed(project), times.SWEEP_BATCH, times.MAX_CRASHES, times.JOB_CHECK_MS
        )

    async def queued(self, project: str) -> int:
        """How many of the project's steps wait for a worker."""
        waiting: int = await self._store.command("ZCARD", keys.step_queue.key(project))
        return waiting

    async def reclaim(self, project: str, held: Iterable[str]) -> int:
        """Gives back what is leased to this worker and not among ``held``; returns how many steps."""
        count: int = await self._store.run(_RECLAIM, project, self.handoff.packed(project), *held)
        return count

    async def acquire_sweep(self, process: str, milliseconds: int) -> bool:
        """Tries to make this process the only sweeper for the given time; returns whether it is."""
        return await self._leader_leases.acquire("sweep", process, milliseconds)

    # --- a queue in another Redis ---------------------------------------------------------------

    async def wake_relay(self, project: str) -> None:
        await self._store.run(_WAKE_RELAY, keys.FLEET, project, _WAKEUPS_MOST)

    async def relay(self, project: str) -> int:
        """Moves jobs from the outbox to their queues; returns how many were in the outbox.

        If it is killed in between, or runs beside another relay, it pushes a job twice at worst: the second pointer
        finds its step taken.
        """
        key = keys.outbox.key(project)
        entries: list[bytes] = await self._store.command("LRANGE", key, 0, RELAYED - 1)
        if entries:
            # An entry that none of our scripts wrote leads nowhere, and would block those behind it.
            matches = [match for entry in entries if (match := _ENTRY.fullmatch(entry))]
            jobs = [QueuedJob(id=match["id"].decode(), queue=match["queue"].decode()) for match in matches]
            await self.push(project, jobs)
            await asyncio.gather(*(self._store.command("LREM", key, 1, entry) for entry in entries))
        return len(entries)

    async def push(self, project: str, jobs: Iterable[QueuedJob], *, force: bool = False) -> None:
        """Writes jobs into the queue's Redis; with ``force`` also those whose hash is there."""
        words = [word for job in jobs for word in (job.queue, job.id)]
        await self._queue.run(_PUSH, keys.QUEUE, self.handoff.queue_side(), project, int(force), *words)

    async def missing(self, project: str, jobs: Sequence[QueuedJob], longest: int = 10_000) -> list[QueuedJob]:
        """Those of the project's jobs that are in no queue although their step waits.

        A queue of more than ``longest`` jobs is not searched: there, only a job without a hash is missing.
        """
        gone: dict[str, QueuedJob] = {}
        for job in jobs:
            key = f"{RQ_PREFIX}:queue:{job.queue}"
            if not await self._queue.command("EXISTS", f"{RQ_PREFIX}:job:{job.id}") or (
                await self._queue.command("LLEN", key) <= longest
                and await self._queue.command("LPOS", key, job.id) is None
            ):
                gone[job.id] = job
        # Asked last, because most of these steps have just been taken.
        waiting = await self._store.run(_WAITING, project, *gone) if gone else []
        return [gone[job_id] for job_id in waiting]

    async def pop(self, want: int) -> list[Popped]:
        """Takes pointers from queues outside the store, at most ``want``; each must be acknowledged."""
        return await self._queue.run(_POP, keys.QUEUE, self.handoff.queue_side(), want)

    async def acknowledge(self, popped: Popped) -> None:
        """Removes a pointer, when its worker has leased the step that it leads to."""
        key = f"{RQ_PREFIX}:queue:{popped.queue}:intermediate"
        # The job first: a worker killed in between leaves a dangling pointer, which the sweep removes, while a job
        # without a pointer would never be found.
        if popped.project:
            await self._queue.command("DEL", f"{RQ_PREFIX}:job:{popped.job}")
        await self._queue.command("LREM", key, 0, popped.job)

    async def drop_spent(self) -> int:
        """Acknowledges pointers whose worker died after it had leased their steps; returns how many."""
        by_project: dict[str, list[Popped]] = {}
        for popped in await self._queue.run(_POPPED, keys.QUEUE, self.handoff.queue_side(), RELAYED):
            by_project.setdefault(popped.project, []).append(popped)
        spent: list[Popped] = []
        for project, pointers in by_project.items():
            # A step that waits is still to be begun, by the worker that popped its pointer or with a new one.
            with self._store.others_go_on():
                try:
                    waiting = await self._store.run(_WAITING, project, *(popped.job for popped in pointers))
                except Fenced as failure:
                    if not failure.for_good:
                        raise
                    waiting = []
                spent += [popped for popped in pointers if popped.job not in waiting]
        await asyncio.gather(*map(self.acknowledge, spent))
        return len(spent)
