"""Decides which calls are admitted now, which wait briefly, and which are shed."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable

import msgspec

from coordinator.errors import ToolFailure
from coordinator.overload.breaker import Breaker
from coordinator.overload.fairness import Shares
from coordinator.overload.limit import AdaptiveLimit
from coordinator.overload.metrics import ADMISSION_QUEUE, SHED, report
from coordinator.settings.sections.overload import Overload
from coordinator.toolsets.tool import Criticality

_CLASSES = tuple(Criticality)
# Tuples indexed by class, because that is the cheapest look-up: most calls of an overload are shed.
_SHARES = (0.5, 0.75, 0.9)
"""How much of the limit each class may fill, together with the classes above it; CRITICAL has a limit of its own."""
_LABELS = tuple(each.label for each in _CLASSES)
_CRITICAL = Criticality.CRITICAL
"""A name of its own, because in Python 3.11 looking up a member of an enumeration takes a call."""
_RETRY_MS = 250
"""The first retry delay that callers get; it grows while nobody is admitted."""
_MAX_RETRY_MS = 5_000
_DRAIN_RETRY_MS = 1_000
_WINDOW_SECONDS = 0.1
"""How often it is checked whether a surplus still lasts."""
SURPLUS = "more calls arrive than can be answered here"
"""The message for calls that are shed without waiting."""
_RELAPSE_SECONDS = 10.0
"""For how long after a surplus another one is likely."""
_RELAPSE_SHARE = 0.02
"""What share of the usual waiting time a call may wait during that time."""
_TOLERATED_SHARE = 0.02
"""A surplus of a class is over when less than this share of its calls finds no room."""


class Ticket(msgspec.Struct, gc=False):
    """An admitted call; given back (``Admission.leave``) when the call ends."""

    actor: str
    project: str
    holds: bool
    """Whether it counts as work in the store. Calls that wait for an event do not."""
    since: float = 0.0
    shard: int = 0
    """Which shard of the store has the project (``sharded.py``)."""


class _Waiting:
    __slots__ = ("admitted", "criticality", "due", "since", "ticket")

    def __init__(self, criticality: Criticality, ticket: Ticket, since: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.criticality = criticality
        self.ticket = ticket
        self.since = since
        self.due = loop.time() + seconds
        """When its wait ends without admission, by the event loop's clock."""
        self.admitted: asyncio.Future[None] = loop.create_future()


class Surplus:
    """Whether more calls of a class arrive than can be admitted. While that lasts, none of them waits.

    A surplus begins when a call has waited as long as it may without being admitted. It ends when, over a tenth of a
    second, hardly any of the arriving calls found no room.
    """

    __slots__ = ("_arrivals", "_refused", "lasts", "seen")

    def __init__(self) -> None:
        self.lasts = False
        self.seen = -math.inf
        """When it began or was last confirmed. It is checked every tenth of a second."""
        self._arrivals = self._refused = 0

    def begin(self, now: float) -> None:
        self.lasts = True
        self.seen = now
        self._arrivals = self._refused = 0

    def arrived(self, refused: bool, now: float) -> None:
        """A call arrived during the surplus; ``refused``: there is no room for it."""
        self._arrivals += 1
        self._refused += refused
        if now - self.seen >= _WINDOW_SECONDS:
            if self._refused > _TOLERATED_SHARE * self._arrivals:
                self.begin(now)
            else:
                self.lasts = False


class Admission:
    """The admission of one process.

    Short bursts wait in a queue. Under lasting overload a queue would only delay everybody. So as soon as one call has
    timed out in the queue, calls of its class and of lower ones no longer wait: they are admitted at once or shed.

    Args:
        settings: the limits; ``configure`` replaces them.
        clock: monotonic, in seconds.
        jitter: gives a number from 0 to 1.
    """

    def __init__(
        self,
        settings: Overload,
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        now = clock()
        self.limit = AdaptiveLimit(settings.least_limit, settings.most_limit, settings.store_target_ms, now)
        self.breaker = Breaker(settings.breaker_open_ms, now, jitter)
        self.draining = False
        """Whether this process drains: new work is shed."""
        self.in_flight = 0
        """Calls in progress in the store."""
        self.parked = 0
        """Calls that wait for an event."""
        self.waiting = 0
        """Calls in the queue."""
        self._queues: tuple[deque[_Waiting], ...] = tuple(deque() for _ in _CLASSES)
        self.surplus = tuple(Surplus() for _ in _CLASSES)
        """By criticality."""
        self._sweeper: asyncio.TimerHandle | None = None
        # Kept here because not every event loop's handles know when they are due.
        self._sweep_due = 0.0
        self.actors, self.projects = Shares(), Shares()
        """Who has the calls that are at work or wait."""
        self._shed_in_a_row = 0
        self.configure(settings)

    def configure(self, settings: Overload) -> None:
        """Replaces the limits for every later call; calls that wait already keep the time that they were given."""
        self._settings = settings
        self._queue_seconds = settings.queue_ms / 1000
        self.limit.configure(settings.least_limit, settings.most_limit, settings.store_target_ms)
        self.breaker.open_ms = settings.breaker_open_ms
        self._set_class_limits()

    def enter(self, criticality: Criticality, actor: str, project: str, *, parks: bool = False) -> Ticket | None:
        """Admits a call: gives a ticket, to be given back with ``leave``; None: the call has to ``wait``.

        Args:
            actor: who calls; '' if unknown.
            parks: whether the call will spend most of its time waiting for an event.

        Raises:
            ToolFailure: ``store_unavailable``, ``draining``, ``over_capacity`` or ``actor_quota``, with retryAfterMs.
        """
        now = self._clock()
        open_for = self.breaker.refuses(now)
        if open_for is not None or self.draining or parks:
            barred = self._barred(criticality, parks, open_for)
            if barred is not None:
                raise barred
        if parks:
            self.parked += 1
            return Ticket(actor, project, False, now)
        critical = criticality is _CRITICAL
        if not critical and 2 * self.in_flight >= self.limit.value:
            self._check_shares(criticality, actor, project)
        surplus = self.surplus[criticality]
        # Calls that wait in lower classes do not hold this one up: its class may fill more of the limit.
        if self.in_flight < self._class_limits[criticality] and (
            critical or not self.waiting or not any(self._queues[criticality:])
        ):
            if surplus.lasts:
                surplus.arrived(False, now)
            return self._admit(Ticket(actor, project, True, now))
        if surplus.lasts:
            surplus.arrived(True, now)
            raise self._shed(criticality, "over_capacity", SURPLUS)
        return None

    def turns_away(self, criticality: Criticality) -> int:
        """Sheds a call if its class has a surplus and there is no room: the cheapest answer to a call.

        Returns:
            Milliseconds after which the call may be repeated; 0: it may ``enter``.
        """
        surplus = self.surplus[criticality]
        if not surplus.lasts or self.in_flight < self._class_limits[criticality]:
            return 0
        surplus.arrived(True, self._clock())
        self._count_shed(criticality, "over_capacity")
        return self._retry_after_ms()

    def refusal(self, criticality: Criticality, *, parks: bool = False) -> ToolFailure | None:
        """Why a call is shed before it would ``enter``, whoever makes it; None: it is not."""
        barred = self._barred(criticality, parks, self.breaker.open_for(self._clock()))
        if barred is not None or parks:
            return barred
        later = self.turns_away(criticality)
        return ToolFailure("over_capacity", SURPLUS, retry_after_ms=later) if later else None

    def begins(self, ticket: Ticket) -> None:
        """An admitted call begins to run. How long it waited for the event loop tells how busy this process is."""
        self.limit.sample_lag(self._clock() - ticket.since)

    async def wait(self, criticality: Criticality, actor: str, project: str) -> Ticket:
        """Waits for room, for as long as the settings allow.

        Raises:
            ToolFailure: ``over_capacity``: too many wait already. ``queue_timeout``: there was no room in time.
        """
        if self.waiting >= self._settings.queue_most and not self._displace(criticality):
            if criticality is not _CRITICAL:
                self.surplus[criticality].begin(self._clock())
            raise self._shed(criticality, "over_capacity", "too many calls are in progress and waiting here")
        now = self._clock()
        last_surplus = max(each.seen for each in self.surplus)
        relapse = criticality is not _CRITICAL and now - last_surplus < _RELAPSE_SECONDS
        seconds = self._queue_seconds * (_RELAPSE_SHARE if relapse else 1.0)
        waiting = _Waiting(criticality, Ticket(actor, project, True), now, seconds)
        self._queues[criticality].append(waiting)
        self.waiting += 1
        self._take_shares(waiting.ticket)
        if self._sweeper is None or waiting.due < self._sweep_due:
            self._sweep_at(waiting.due)
        try:
            await waiting.admitted
        except BaseException:
            if waiting.admitted.done() and not waiting.admitted.cancelled() and waiting.admitted.exception() is None:
                # It was admitted just as it timed out.
                self.leave(waiting.ticket)
            else:
                self._forget(waiting)
            raise
        self.begins(waiting.ticket)
        ADMISSION_QUEUE.labels(_LABELS[criticality]).observe(waiting.ticket.since - waiting.since)
        return waiting.ticket

    def leave(self, ticket: Ticket) -> None:
        """A call has ended."""
        if not ticket.holds:
            # Parked calls take no shares.
            self.parked -= 1
            return
        self._give_back_shares(ticket)
        self.in_flight -= 1
        if self.waiting:
            self._admit_waiting()

    def store_call(self, seconds: float, ok: bool) -> None:
        """The store answered a call of this process, or failed to (``ok`` is false)."""
        now = self._clock()
        self.breaker.ended(ok, now)
        self.limit.sample(seconds, max(1, self.in_flight), now)
        if self.limit.value != self._limits_set_for:
            self._set_class_limits()

    @property
    def most(self) -> int:
        """The present limit of calls in progress."""
        return self.limit.value

    def probe(self) -> None:
        """The store answers again."""
        self.breaker.probe()

    def shown(self) -> str:
        """The state of the breaker, as shown to operators."""
        return self.breaker.shown(self._clock())

    def report(self) -> None:
        """Records the present state."""
        report(self.in_flight, self.limit.value, self.waiting, self.shown())

    def _set_class_limits(self) -> None:
        """Derives the limits of the classes, of one actor and of one project from the present limit."""
        self._limits_set_for = limit = self.limit.value
        self._class_limits = (*(max(1, int(limit * share)) for share in _SHARES), self._settings.hard_limit)
        self._most_of_actor = max(2, int(limit * self._settings.actor_share))
        self._most_of_project = max(4, int(limit * self._settings.project_share))

    def _admit(self, ticket: Ticket) -> Ticket:
        self.in_flight += 1
        self._shed_in_a_row = 0
        self._take_shares(ticket)
        return ticket

    def _check_shares(self, criticality: Criticality, actor: str, project: str) -> None:
        if self.actors.exceeds(actor, self._most_of_actor):
            raise self._shed(criticality, "actor_quota", "this agent has more calls in progress here than its share")
        if self.projects.exceeds(project, self._most_of_project):
            raise self._shed(criticality, "actor_quota", "this project has more calls in progress here than its share")

    def _admit_waiting(self) -> None:
        """Admits waiting calls, the most critical first, as far as there is room."""
        for criticality in reversed(_CLASSES):
            queue = self._queues[criticality]
            while queue:
                if self.in_flight >= self._class_limits[criticality]:
                    return
                waiting = queue.popleft()
                self.waiting -= 1
                if waiting.admitted.done():
                    # It has just given up; its task, which has not run since, will not find it in the queue.
                    self._give_back_shares(waiting.ticket)
                    continue
                self.in_flight += 1
                self._shed_in_a_row = 0
                waiting.ticket.since = self._clock()
                waiting.admitted.set_result(None)

    def _sweep_at(self, due: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_due = due
        self._sweeper = asyncio.get_running_loop().call_at(due, self._sweep)

    def _sweep(self) -> None:
        """Ends the wait of calls that are due. One timer is enough: within a class, the first call is due first."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for criticality in _CLASSES:
            queue = self._queues[criticality]
            if queue and queue[0].due <= now:
                self._time_out_class(criticality, now)
        if self.waiting:
            self._sweep_at(min(queue[0].due for queue in self._queues if queue))

    def _time_out_class(self, criticality: Criticality, now: float) -> None:
        """A call has timed out in the queue. So would all others of its class and of lower ones: a surplus begins.

        A critical call times out alone: critical calls may always wait.
        """
        if criticality is _CRITICAL:
            queue = self._queues[criticality]
            while queue and queue[0].due <= now:
                self._time_out(queue[0])
            return
        gave_up = self._clock()
        for lower in _CLASSES[: criticality + 1]:
            self.surplus[lower].begin(gave_up)
            for waiting in tuple(self._queues[lower]):
                self._time_out(waiting)

    def _time_out(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        if not waiting.admitted.done():
            why = f"there was no room in time, of at most {self._settings.queue_ms} ms"
            waiting.admitted.set_exception(self._shed(waiting.criticality, "queue_timeout", why))

    def _displace(self, criticality: Criticality) -> bool:
        """Makes room in the queue by shedding the last call of a lower class; returns whether there was one."""
        for lower in _CLASSES:
            if lower >= criticality:
                return False
            if queue := self._queues[lower]:
                waiting = queue[-1]
                self._forget(waiting)
                if not waiting.admitted.done():
                    waiting.admitted.set_exception(
                        self._shed(lower, "over_capacity", "more urgent calls took this one's place")
                    )
                return True
        return False

    def _forget(self, waiting: _Waiting) -> None:
        """Takes a call out of the queue, unless it has left it."""
        try:
            self._queues[waiting.criticality].remove(waiting)
        except ValueError:
            return
        self.waiting -= 1
        self._give_back_shares(waiting.ticket)

    def _take_shares(self, ticket: Ticket) -> None:
        self.actors.take(ticket.actor)
        self.projects.take(ticket.project)

    def _give_back_shares(self, ticket: Ticket) -> None:
        self.actors.give_back(ticket.actor)
        self.projects.give_back(ticket.project)

    def _barred(self, criticality: Criticality, parks: bool, open_for: float | None) -> ToolFailure | None:
        """Why a call is shed independently of its caller.

        Args:
            open_for: seconds for which the breaker stays open; None: it is not.
        """
        if open_for is not None:
            return self._shed(criticality, "store_unavailable", "the store does not answer", int(open_for * 1000))
        if self.draining and (drained := self.barred_by_drain(criticality, parks)) is not None:
            return drained
        if parks and self.parked >= self._settings.parked_most:
            return self._shed(criticality, "over_capacity", f"{self.parked} calls wait for an event here already")
        return None

    def barred_by_drain(self, criticality: Criticality, parks: bool) -> ToolFailure | None:
        """Why a call is shed because this process drains; None: it is not."""
        if self.draining and (parks or criticality < Criticality.READ):
            return self._shed(criticality, "draining", "this front-end takes no new work", _DRAIN_RETRY_MS)
        return None

    def _shed(self, criticality: Criticality, code: str, why: str, retry_ms: int = 0) -> ToolFailure:
        self._count_shed(criticality, code)
        return ToolFailure(code, why, retry_after_ms=self._retry_after_ms(retry_ms))

    def _count_shed(self, criticality: Criticality, code: str) -> None:
        self.limit.rejected += 1
        SHED.cells[_LABELS[criticality], code].value += 1.0

    def _retry_after_ms(self, least_ms: int = 0) -> int:
        """The retry delay for callers, with jitter in 16 steps, so that rendered answers can be reused."""
        self._shed_in_a_row += 1
        # The longer nobody is admitted, the longer the retry delay.
        base = max(least_ms, min(_MAX_RETRY_MS, _RETRY_MS * (1 + self._shed_in_a_row // 100)))
        return int(base * (0.5 + int(16 * self._jitter()) / 16))
