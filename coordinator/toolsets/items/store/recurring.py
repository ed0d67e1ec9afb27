"""Makes the occurrences of templates (``lua/times/make_occurrences.lua``)."""

from __future__ import annotations

from collections.abc import Sequence

from cronsim import CronSimError

from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.store import Script
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.metrics.levels import OCCURRENCES
from coordinator.toolsets.items.rules.ids import new_ids
from coordinator.toolsets.items.rules.times.recurrence import OccurrencePlan, Recurrence, plan, stored
from coordinator.toolsets.items.store.base import EXPIRE, LIBRARY, SETTLE, BaseStore, DueTemplate, pack

__all__ = ["DueTemplate", "RecurringStore"]

_MAKE = Script(LIBRARY, "make_occurrences", tuple[int, int], rest=SETTLE)
_AGAIN_MS = 60_000
"""How long a template rests whose times cannot be computed."""


class RecurringStore(BaseStore):
    """Makes occurrences in any project. Any number of processes may do so: each is made once."""

    _warn = ThrottledWarnings()

    async def expire(self, project: str) -> tuple[int, int]:
        """As ``BaseStore.expire``; makes the occurrences that are due, too."""
        while True:
            expired = await self._store.run(EXPIRE, project, *self._terms(project))
            if expired.templates:
                await self.make(project, expired.now, expired.templates)
            elif expired.none_left:
                return expired.next_end, expired.now

    async def make(self, project: str, now: int, templates: Sequence[DueTemplate]) -> None:
        """Makes what is due of templates.

        Args:
            now: the store's time, in ms.
        """
        for template in templates:
            how, dealt = stored(template.recurs), int(template.dealt)
            todo = self._plan(project, template, how, dealt, now)
            times = list(zip(new_ids(len(todo.times)), todo.times, strict=True))
            overlap = int(how.overlap == "allow")
            asked = template.id, template.recurs, template.dealt, pack(times), todo.dealt, todo.look, overlap
            made, skipped = await self._change_by_schema(_MAKE, project, NO_KEY, *asked)
            for outcome, count in (("made", made), ("skipped", skipped)):
                if count > 0:
                    OCCURRENCES.labels(outcome).inc(count)

    def _plan(self, project: str, template: DueTemplate, how: Recurrence, dealt: int, now: int) -> OccurrencePlan:
        try:
            return plan(how, dealt, now, int(template.not_before or 0))
        except CronSimError as problem:
            self._warn("recurs", "a template cannot recur", project=project, item=template.id, reason=str(problem))
            return OccurrencePlan([], dealt, now + _AGAIN_MS)
