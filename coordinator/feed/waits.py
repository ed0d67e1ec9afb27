"""Waiting reads: calls that wait until what they read has reached a state. One room for all of them in a process.

A *subject* is what calls wait for: a condition on one item, workflow, session or instance. All calls with the same
subject share its reads, whose number does not depend on how many wait. A toolset declares a ``SubjectSource``, which
reads subjects; the room decides when.

No change is missed, and nobody polls, because of these rules:

1. A read gives the state of its subject and the last id of the project's event stream (``Moment``), both from one
   script, or the id first. So whatever the state lacks has an entry with a higher id.
2. A read also names the ids (``Reading.names``) one of which must have an entry before the answer can change. While
   calls wait, the feed's reader tells the room of each entry about one of them.
3. An entry above the last read makes the room read again. What is told while a read is under way is compared with the
   position of that read. If a read names an id that was not watched before, and the reader is past its position
   already, or has found another server meanwhile, the room reads once more, now that the id is watched. So after the
   last read, every entry about its names above its position is yet to be told.
4. The entry is a hint; the read decides. A call is judged by reads that began after it had come, so it sees what its
   caller did before, and is answered at once if the state is already there.
5. If entries may be missing, because the reader has found a gap or another server, or the connection for reads is a new
   one, all subjects are read again. So they are every 10 s, for what changes by time alone.

A process that dies leaves nothing behind: the store does not know who waits.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextvars import Context
from itertools import islice

from coordinator.errors import ToolFailure
from coordinator.feed.cursor import START, Cursor
from coordinator.feed.metrics import READS_WAITING, WAIT_READS, WAITS_ENDED
from coordinator.feed.reader import FeedReader
from coordinator.feed.subjects import Group, Met, Moment, Reading, Recheck, Subject, SubjectSource, Waiter, WaitOutcome
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.store import StoreError
from coordinator.store.fences.known import Fenced

AGAIN_SECONDS = 10.0
"""How long after a read the next one comes at the latest, give or take a fifth."""
COALESCE_SECONDS = 0.25
"""How long changes below an item are collected before they lead to a read."""
RECHECK_SECONDS = 5.0
"""How often it is checked whether a caller may still read."""
CALLER_MOST = 100
"""Waiting reads of one caller in a process."""
TICK_SECONDS = 0.5
"""How often it is looked for what is due."""
PAUSE_SECONDS = 0.2
"""The pause after a failed read."""
_SOONER = 0.95
"""A wait ends a little earlier than asked, so that its client does not time out first, nor all at once."""
_BATCH = 64
"""Subjects of one read."""


class Waits:
    """The waiting reads of one process, in any project."""

    def __init__(self, reader: FeedReader) -> None:
        self.reader = reader
        self.begun = 0
        """How many waits have begun so far."""
        self._groups: dict[tuple[str, str], Group] = {}
        self._callers: Counter[str] = Counter()
        self._count = 0
        self._held = False
        self._ticking: asyncio.Task[None] | None = None
        self._warn = ThrottledWarnings()

    @property
    def waiting(self) -> int:
        return self._count

    @property
    def subjects(self) -> int:
        return sum(len(group.subjects) for group in self._groups.values())

    @property
    def settled(self) -> bool:
        """Whether every subject was read, and nothing has happened to it since."""
        return not any(
            group.wanted or subject.heard is not None or subject.timer is not None
            for group in self._groups.values()
            for subject in group.subjects.values()
        )

    def reading(self, source: SubjectSource, project: str, key: str) -> Reading | None:
        """What was last read of a subject; None: nobody waits for it, or there is no such thing."""
        group = self._groups.get((source.name, project))
        subject = group.subjects.get(key) if group is not None else None
        return subject.reading if subject is not None else None

    async def wait(
        self,
        source: SubjectSource,
        project: str,
        key: str,
        seconds: float,
        *,
        changed: bool = False,
        after: str | None = None,
        met: Met | None = None,
        caller: str = "",
        recheck: Recheck | None = None,
        hung_up: asyncio.Future[None] | None = None,
    ) -> WaitOutcome:
        """Waits until a subject's condition holds: at once if it does.

        Args:
            seconds: how long at most; 0 only looks.
            changed: waits for another version than ``after``; without ``after``, than at the first read.
            met: the condition; None: ``Reading.met``.
            caller: the identified caller; '' if there is none.
            recheck: called every few seconds; what it raises ends the wait.
            hung_up: ends the wait when it is completed.

        Raises:
            ToolFailure: ``actor_quota``: the caller has as many as one may. What the first read or ``recheck`` raises.
        """
        if caller and self._callers[caller] >= CALLER_MOST:
            text = f"this caller has {CALLER_MOST} waiting reads here, as many as one may"
            raise ToolFailure("actor_quota", text, retry_after_ms=5_000)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiter = Waiter(changed, after, met, recheck, began + RECHECK_SECONDS * random.random())
        timer = loop.call_later(0.0 if self._held else seconds * random.uniform(_SOONER, 1.0), waiter.end)
        if hung_up is not None:
            hung_up.add_done_callback(waiter.end)
        subject = self._enter(source, project, key, waiter, caller)
        outcome = "cancelled"
        try:
            result = await waiter.ended
            outcome = "met" if result else "unmet" if waiter.reading is not None else "gone"
        except Exception:
            outcome = "failed"
            raise
        finally:
            timer.cancel()
            if hung_up is not None:
                hung_up.remove_done_callback(waiter.end)
            self._leave(subject, waiter, caller)
            WAITS_ENDED.cells[outcome,].value += 1.0
        return WaitOutcome(result, int((loop.time() - began) * 1000), waiter.reading)

    def hold(self, held: bool) -> None:
        """Ends all waits, as if their time were over, because this process takes no new work; or allows them again."""
        self._held = held
        if held:
            for group in self._groups.values():
                for subject in group.subjects.values():
                    for waiter in subject.waiters:
                        waiter.end()

    def want(self, subject: Subject, why: str) -> None:
        if subject.timer is not None:
            subject.timer.cancel()
            subject.timer = None
        group = subject.group
        group.wanted.setdefault(subject, why)
        if group.task is None or group.task.done():
            # In an empty context, because it goes on for later calls.
            name = f"waiting reads of {group.source.name}"
            group.task = asyncio.create_task(self._read(group), name=name, context=Context())

    def want_later(self, subject: Subject) -> None:
        """The same after a time, unless it is read earlier."""
        if subject.timer is None:
            subject.timer = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self.want, subject, "event")

    def _enter(self, source: SubjectSource, project: str, key: str, waiter: Waiter, caller: str) -> Subject:
        group = self._groups.get((source.name, project))
        if group is None:
            group = self._groups[source.name, project] = Group(source, project)
        subject = group.subjects.get(key)
        if subject is None:
            subject = group.subjects[key] = Subject(self, group, key)
            at = self.reader.reached(project)
            if at is not None:
                self._watch(subject, at, frozenset(source.names(key)))
        subject.waiters.add(waiter)
        self._count += 1
        self.begun += 1
        if caller:
            self._callers[caller] += 1
        READS_WAITING.set(self._count)
        self.want(subject, "call")
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._tick(), name="waiting reads", context=Context())
        return subject

    def _leave(self, subject: Subject, waiter: Waiter, caller: str) -> None:
        subject.waiters.discard(waiter)
        self._count -= 1
        if caller:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]
        READS_WAITING.set(self._count)
        if subject.waiters:
            return
        group = subject.group
        self._watch(subject, None, frozenset())
        group.wanted.pop(subject, None)
        del group.subjects[subject.key]
        if subject.timer is not None:
            subject.timer.cancel()
        if not group.subjects:
            del self._groups[group.source.name, group.project]

    def _watch(self, subject: Subject, at: Cursor | None, names: frozenset[str]) -> None:
        """Watches exactly these ids."""
        if at is not None:
            for name in names - subject.names:
                self.reader.watch(at, name, subject.told)
        for name in subject.names - names:
            self.reader.unwatch(subject.group.project, name, subject.told)
        subject.names = names

    async def _read(self, group: Group) -> None:
        """Reads what is wanted, until nothing is."""
        while group.wanted:
            subjects = list(islice(group.wanted, _BATCH))
            for subject in subjects:
                WAIT_READS.cells[group.wanted.pop(subject),].value += 1.0
                subject.heard = subject.below = START
            judged = [list(subject.waiters) for subject in subjects]
            before = self.reader.reached(group.project)
            try:
                moment = await group.source.read(group.project, [(one.key, one.reading) for one in subjects])
            except (ToolFailure, StoreError) as failure:
                if isinstance(failure, Fenced) and failure.for_good:
                    self._fail(subjects, [list(subject.waiters) for subject in subjects], failure, lasting=True)
                    continue
                self._fail(subjects, judged, failure)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except Exception as defect:
                self._fail(subjects, [list(subject.waiters) for subject in subjects], defect, lasting=True)
                continue
            for subject, waiters, reading in zip(subjects, judged, moment.readings, strict=True):
                for waiter in waiters:
                    waiter.judge(reading)
                self._follow(subject, reading, moment, before)

    def _fail(
        self, subjects: list[Subject], judged: list[list[Waiter]], failure: Exception, *, lasting: bool = False
    ) -> None:
        """A read failed. Calls that were never answered fail with it; for others it is tried again."""
        self._warn("read", "waiting reads cannot read", reason=f"{type(failure).__name__}: {failure}")
        for subject, waiters in zip(subjects, judged, strict=True):
            subject.heard = None
            for waiter in waiters:
                if lasting or waiter.reading is None:
                    waiter.fail(failure)
            if any(not waiter.ended.done() for waiter in subject.waiters):
                subject.group.wanted.setdefault(subject, "failure")

    def _follow(self, subject: Subject, reading: Reading | None, moment: Moment, before: Cursor | None) -> None:
        """After a read: watches what it names, and reads again if anything has happened to that since.

        Args:
            before: where the reader was when the read began; None: it did not follow the project.
        """
        heard, subject.heard = subject.heard or START, None
        subject.reading, subject.last = reading, moment.last
        subject.due = asyncio.get_running_loop().time() + AGAIN_SECONDS * random.uniform(0.8, 1.2)
        if reading is None or all(waiter.ended.done() for waiter in subject.waiters):
            return
        project = subject.group.project
        names = frozenset((*reading.names, reading.root) if reading.root else reading.names)
        new = not names <= subject.names
        self._watch(subject, Cursor(project, moment.epoch, moment.last), names)
        reached = self.reader.reached(project)
        moved = before is not None and reached is not None and before.epoch != reached.epoch
        passed = reached is not None and reached.entry > moment.last
        if new and (moved or passed):
            self.want(subject, "event")
        else:
            subject.hear(heard, False)
            subject.hear(subject.below, True)

    async def _tick(self) -> None:
        """Reads again what was not read for long, and checks rights."""
        loop = asyncio.get_running_loop()
        while self._count:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            for group in list(self._groups.values()):
                for subject in list(group.subjects.values()):
                    if subject.due <= now and subject.heard is None and subject.last != START:
                        self.want(subject, "time")
                    for waiter in list(subject.waiters):
                        if waiter.recheck is not None and waiter.recheck_at <= now:
                            waiter.recheck_at = now + RECHECK_SECONDS
                            await self._recheck(waiter, waiter.recheck)

    @staticmethod
    async def _recheck(waiter: Waiter, recheck: Recheck) -> None:
        try:
            await recheck()
        except Exception as failure:  # that of one caller must not end the checks of all
            waiter.fail(failure)
