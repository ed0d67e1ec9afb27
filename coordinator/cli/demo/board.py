"""The progress of a run, from the events as they arrive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from coordinator.cli.demo.history import Event
from coordinator.cli.demo.work import Planned
from coordinator.toolsets.items.rules.roles import ROLE_CODES

_TERMINAL = ROLE_CODES["terminal"]
_WINDOW_MS = 3000


class Board:
    """The plan's items and their present roles."""

    def __init__(self, plan: Mapping[str, Planned]) -> None:
        self._plan = plan
        self._waiting = {item: len(planned.blockers) for item, planned in plan.items()}
        self._blocks: dict[str, list[str]] = {}
        for item, planned in plan.items():
            for blocker in planned.blockers:
                self._blocks.setdefault(blocker, []).append(item)
        self._free = {item for item, planned in plan.items() if planned.step and not planned.blockers}
        self._held: set[str] = set()
        self._done: set[str] = set()
        self._recent: deque[int] = deque()
        self._now = 0
        self.steps = sum(planned.step for planned in plan.values())
        self.steps_done = 0
        self.claims = 0
        self.most_claimed = 0
        """The most items that were claimed at a time."""
        self.expiries = 0
        """Claims that ended by time."""
        self.repeated: list[str] = []
        """Titles of items that were done once more."""
        self._began = 0
        """Of the first claim and the last completion: server time in milliseconds."""
        self._ended = 0

    def apply(self, events: Iterable[Event]) -> None:
        """Takes events into account."""
        for event in events:
            self._now = event.at
            if event.kind == "claim":
                self._claim(event)
            elif event.kind in ("release", "expire"):
                self._held.discard(event.item)
                self.expiries += event.kind == "expire"
            elif event.kind == "transition" and event.role == _TERMINAL:
                self._finish(event)
        while self._recent and self._recent[0] < self._now - _WINDOW_MS:
            self._recent.popleft()

    @property
    def all_done(self) -> bool:
        """Whether every item is done, parents included."""
        return len(self._done) == len(self._plan)

    @property
    def items_done(self) -> int:
        """How many items are done, parents included."""
        return len(self._done)

    @property
    def ready(self) -> int:
        """How many steps are ready and not claimed."""
        return len(self._free - self._held)

    @property
    def claimed(self) -> int:
        """How many steps are claimed and not done."""
        return len(self._held - self._done)

    @property
    def rate(self) -> float:
        """Steps done per second, lately."""
        if len(self._recent) < 2:
            return 0.0
        return 1000 * len(self._recent) / max(250, self._now - self._recent[0])

    @property
    def seconds(self) -> float:
        """Server time from the first claim to the last completion."""
        return max(0, self._ended - self._began) / 1000

    def _claim(self, event: Event) -> None:
        self._began = self._began or event.at
        self.claims += 1
        self._held.discard(event.left)
        # A claim on an item that is held takes it over: the one before is over.
        self.expiries += event.item in self._held
        self._held.add(event.item)
        self.most_claimed = max(self.most_claimed, len(self._held))

    def _finish(self, event: Event) -> None:
        planned = self._plan.get(event.item)
        if planned is None:
            return
        if event.item in self._done:
            self.repeated.append(planned.title)
            return
        self._done.add(event.item)
        self._ended = event.at
        self._free.discard(event.item)
        if planned.step:
            self.steps_done += 1
            self._recent.append(event.at)
        for blocked in self._blocks.get(event.item, ()):
            self._waiting[blocked] -= 1
            if not self._waiting[blocked] and self._plan[blocked].step:
                self._free.add(blocked)
