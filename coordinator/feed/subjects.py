"""What waiting reads wait for, and how toolsets read that; see ``waits.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from coordinator.feed.cursor import START, Entry


class Reading(NamedTuple):
    """A subject at one moment."""

    version: str
    """Another one for each state; opaque."""
    met: bool
    """Whether what the subject's key asks for is there."""
    names: tuple[str, ...] = ()
    """Ids, as in the event stream: one of them has an entry before ``met`` and ``version`` change."""
    root: str = ""
    """The id of an item without a parent: an entry about any item below it may change them, too."""
    facts: Any = None
    """More about it, for ``Met``."""


class Moment(NamedTuple):
    """What a read gives."""

    epoch: str
    """The history of the server that answered (``cursor.epoch_of``)."""
    last: Entry
    """The last id of the project's event stream."""
    readings: Sequence[Reading | None]
    """Of each subject; None: there is no such thing (any more)."""


Met = Callable[[Reading], bool]
Recheck = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class SubjectSource:
    """What a toolset declares about its subjects."""

    name: str
    """Unique."""
    read: Callable[[str, Sequence[tuple[str, Reading | None]]], Awaitable[Moment]]
    """Reads subjects of a project, each with its key and what it was before, all at one moment. Raises ToolFailure."""
    names: Callable[[str], tuple[str, ...]]
    """The ids that are certain to be among those of a key's readings."""


class WaitOutcome(NamedTuple):
    met: bool
    """False: the time is over, the process stops, or the thing is gone."""
    ms: int
    """How long it took."""
    reading: Reading | None
    """What was read last; None: the thing is gone."""


class Waiter:
    """A call that waits.

    Args:
        changed, after, met, recheck: as of ``Waits.wait``.
        recheck_at: when ``recheck`` is called next, by the clock of the event loop.
    """

    __slots__ = ("_changed", "_met", "_overdue", "after", "ended", "reading", "recheck", "recheck_at")

    def __init__(
        self, changed: bool, after: str | None, met: Met | None, recheck: Recheck | None, recheck_at: float
    ) -> None:
        self.ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.reading: Reading | None = None
        self.after = after
        self.recheck = recheck
        self.recheck_at = recheck_at
        self._changed = changed
        self._met = met
        self._overdue = False

    def judge(self, reading: Reading | None) -> None:
        """Takes a read that began after it had come."""
        if self.ended.done():
            return
        self.reading = reading
        met = False
        if reading is not None:
            if not self._changed:
                try:
                    met = reading.met if self._met is None else self._met(reading)
                except Exception as defect:  # of one call: others are judged by the same read
                    self.fail(defect)
                    return
            elif self.after is not None:
                met = reading.version != self.after
            else:
                self.after = reading.version
        if met or self._overdue or reading is None:
            self.ended.set_result(met)

    def end(self, *_: object) -> None:
        """Its time is over; it still gets one read."""
        self._overdue = True
        if self.reading is not None and not self.ended.done():
            self.ended.set_result(False)

    def fail(self, failure: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(failure)


class Group:
    """The subjects of a source in a project, which are read together."""

    def __init__(self, source: SubjectSource, project: str) -> None:
        self.source = source
        self.project = project
        self.subjects: dict[str, Subject] = {}
        self.wanted: dict[Subject, str] = {}
        """Those to be read, with the reason."""
        self.task: asyncio.Task[None] | None = None


class Room(Protocol):
    """Who reads subjects; implemented by ``waits.Waits``."""

    def want(self, subject: Subject, why: str) -> None:
        """Reads a subject soon."""

    def want_later(self, subject: Subject) -> None:
        """The same after a time, unless it is read earlier."""


class Subject:
    """A condition on one thing, and the calls that wait for it."""

    __slots__ = ("_room", "below", "due", "group", "heard", "key", "last", "names", "reading", "timer", "waiters")

    def __init__(self, room: Room, group: Group, key: str) -> None:
        self._room = room
        self.group = group
        self.key = key
        self.waiters: set[Waiter] = set()
        self.names: frozenset[str] = frozenset()
        """What the reader tells it of."""
        self.reading: Reading | None = None
        self.last: Entry = START
        """The position of the last read."""
        self.heard: Entry | None = None
        """While a read is under way: the last entry that was told meanwhile."""
        self.below: Entry = START
        """The same of entries about items below."""
        self.due = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def told(self, entry: Entry | None, below: bool) -> None:
        """An entry about one of its names; see ``reader.Told``."""
        if entry is None:
            self._room.want(self, "reader")
        elif self.heard is None:
            self.hear(entry, below)
        elif below:
            self.below = max(self.below, entry)
        else:
            self.heard = max(self.heard, entry)

    def hear(self, entry: Entry, below: bool) -> None:
        """Has it read again if the entry came after its last read."""
        if entry > self.last and below:
            self._room.want_later(self)
        elif entry > self.last:
            self._room.want(self, "event")
