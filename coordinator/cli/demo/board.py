"""The progress of a run, from the events as they arrive. It is for people who watch; the proof does not use it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from coordinator.cli.demo.history import Event
from coordinator.cli.demo.proof import TERMINAL, Planned

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
        self.expiries = 0

    def apply(self, events: Iterable[Event]) -> None:
        """Takes events into account."""
        for event in events:
            self._now = event.at
            if event.kind == "claim":
                self._held.add(event.item)
            elif event.kind in ("release", "expire"):
                self._held.discard(event.item)
                self.expiries += event.kind == "expire"
            elif event.kind == "transition" and event.after == TERMINAL:
                self._finish(event)
        while self._recent and self._recent[0] < self._now - _WINDOW_MS:
            self._recent.popleft()

    @property
    def all_done(self) -> bool:
        """Whether every item is done, parents included."""
        return len(self._done) == len(self._plan)

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

    def _finish(self, event: Event) -> None:
        planned = self._plan.get(event.item)
        if planned is None or event.item in self._done:
            return
        self._done.add(event.item)
        self._free.discard(event.item)
        if planned.step:
            self.steps_done += 1
            self._recent.append(event.at)
        for blocked in self._blocks.get(event.item, ()):
            self._waiting[blocked] -= 1
            if not self._waiting[blocked] and self._plan[blocked].step:
                self._free.add(blocked)
