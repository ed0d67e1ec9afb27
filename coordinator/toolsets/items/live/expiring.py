"""Puts back what ends by time: expired claims, and items that are held back until a time; makes due occurrences.

Operations notice by themselves what has ended by time (``lua/claims/expiry.lua``). This makes reads show it soon, too:
what has become of an item whose agent died. Each process notes when claims that it places end, in a list of the fleet's
projects (``coordinator.store.projects.due``); whichever process first sees that a project is due runs a sweep there. So
a process may die, and another one sweeps in its place. A project is swept at most once in ``PAUSE_MS``, one in which
nothing ends never, by one process at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from itertools import islice
from time import monotonic, time_ns
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service, end_tasks
from coordinator.store import Store, StoreError
from coordinator.store.fences.known import Fenced
from coordinator.store.projects.due import DueProjects, Finished, Note
from coordinator.toolsets.items.rules.times import due as due_times

PAUSE_MS = 700
"""The shortest time between two sweeps of a project."""
_LOOK_SECONDS = 1.0
"""How often a process looks for projects that are due; at the latest when the next one is."""
_SOONEST_SECONDS = 0.05
_TAKEN = 20
"""How many projects a process takes at a time."""
_PRECISE_MS = 2_000
"""What ends sooner may not be known to processes with parked calls, which look once a second."""
_NOTED = 200
"""How many projects it notes at a time."""


class Expiring(Service):
    """Looks after what ends by time, in any project.

    Args:
        sweep: puts everything back in a project that has ended; returns when the next thing ends (0: nothing does),
            and the store's time, in ms.
    """

    def __init__(self, store: Store, sweep: Callable[[str], Coroutine[Any, Any, tuple[int, int]]]) -> None:
        self._store = store
        self._due = DueProjects(store)
        self._sweep = sweep
        self._ends: dict[str, int] = {}
        """When the first thing ends that this process has brought about, by project, in ms of the store's clock."""
        self._new: set[str] = set()
        """The projects for which that is not noted yet."""
        self._changed = asyncio.Event()
        self._precise: dict[str, asyncio.TimerHandle] = {}
        """Sweeps in a short while, by project."""
        self._sweeping: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._task: asyncio.Task[None] | None = None
        self._warn = ThrottledWarnings()

    def expect(self, project: str, ends: int) -> None:
        """Notes that a claim or a back-off in the project ends at a time, in ms of the store's clock."""
        known = self._ends.get(project)
        if known is None or ends < known:
            self._ends[project] = ends
            self._new.add(project)
            self._changed.set()

    def note_times(self, project: str, said: Sequence[due_times.Fields]) -> None:
        """Notes what new or changed items say about time."""
        now = time_ns() // 1_000_000
        first = min((at for fields in said if (at := due_times.first_time(fields, now)) is not None), default=None)
        if first is None:
            return
        self.expect(project, first)
        if first - now < _PRECISE_MS:
            self._sweep_at(project, first - now)

    def _sweep_at(self, project: str, milliseconds: int) -> None:
        """Sweeps a project in a short while: processes with parked calls may not learn of it in time to do so."""
        loop = asyncio.get_running_loop()
        due = loop.time() + milliseconds / 1000
        known = self._precise.get(project)
        if known is not None and known.when() <= due:
            return  # it goes on as long as something ends soon
        if known is not None:
            known.cancel()
        self._precise[project] = loop.call_at(due, self._begin_sweep, project, context=Context())

    def _begin_sweep(self, project: str) -> None:
        del self._precise[project]
        task = asyncio.get_running_loop().create_task(self._sweep_soon(project), name=f"sweep of {project}")
        self._sweeping.add(task)
        task.add_done_callback(self._sweeping.discard)

    async def _sweep_soon(self, project: str) -> None:
        try:
            ends, now = await self._sweep(project)
        except (ToolFailure, StoreError):
            return  # noticed when the project is looked after
        if 0 < ends - now < _PRECISE_MS / 2:
            self._sweep_at(project, ends - now)

    async def start(self) -> None:
        # In an empty context, because it may be started by a call.
        self._task = asyncio.create_task(self._run(), name="expiring claims", context=Context())

    async def stop(self, deadline: float = 0.0) -> None:
        """Leaves the projects to other processes."""
        for handle in self._precise.values():
            handle.cancel()
        await end_tasks(*filter(None, [self._task]), *self._sweeping)

    async def _run(self) -> None:
        finished: list[Finished] = []
        while True:
            began, pause = monotonic(), _LOOK_SECONDS
            self._changed.clear()
            notes = self._notes()
            try:
                due = await self._due.take(PAUSE_MS, _TAKEN, notes, finished)
            except (ToolFailure, StoreError) as failure:
                self._warn("due", "expired claims cannot be looked for", reason=str(failure))
                await self._without_list()
            else:
                for project, ends, _ in notes:
                    if self._ends.get(project) == ends:
                        self._new.discard(project)
                        if ends <= due.now:
                            del self._ends[project]
                ended = await asyncio.gather(*(self._look_after(*taken) for taken in due.taken))
                finished = [one for one in ended if one is not None]
                if due.next_end:
                    pause = min(pause, (due.next_end - due.now) / 1000)
            await self._wait(0 if finished else pause, began)

    async def _without_list(self) -> None:
        """In a cluster, the list of projects may be away while others are not: looks after those known here."""
        now = time_ns() // 1_000_000
        if self._store.sharded:
            late = [project for project, ends in self._ends.items() if ends <= now]
            await asyncio.gather(*(self._look_after(project, 0) for project in late[:_TAKEN]))

    async def _wait(self, pause: float, began: float) -> None:
        """Waits for a time, or until something is to be noted; and so that rounds do not follow too closely."""
        if not self._changed.is_set():
            try:
                async with asyncio.timeout(max(pause, 0)):
                    await self._changed.wait()
            except TimeoutError:
                pass
        await asyncio.sleep(max(0.0, _SOONEST_SECONDS - (monotonic() - began)))

    async def _look_after(self, project: str, taken_until: int) -> Finished | None:
        try:
            next_end, _ = await self._sweep(project)
        except Fenced as fence:
            if not fence.for_good:
                return None  # it is being copied: it is taken again later
            # What ends in it is dealt with where it is now.
            self._ends.pop(project, None)
            self._new.discard(project)
            return project, taken_until, 0
        except (ToolFailure, StoreError) as failure:
            self._warn("sweep", "expired claims cannot be put back", project=project, reason=str(failure))
            return None  # it is taken again later
        return project, taken_until, next_end

    def _notes(self) -> list[Note]:
        """What is new first. Then others in turn, because the store may have lost them."""
        if self._turn >= len(self._ends):
            self._turn = 0
        new = list(islice(self._new, _NOTED))
        others = list(islice(self._ends, self._turn, self._turn + _NOTED - len(new)))
        self._turn += len(others)
        return [(project, self._ends[project], project in self._new) for project in dict.fromkeys(new + others)]
