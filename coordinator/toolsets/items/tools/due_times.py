"""What items say about time, as results show it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from cronsim import CronSimError
from msgspec import UNSET

from coordinator.toolsets.items.contract.due_times import Recurring
from coordinator.toolsets.items.rules.due_times import duration
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.recurrence import following, stored
from coordinator.toolsets.items.store.due_times import DueTimes
from coordinator.toolsets.timestamp import iso


def due_times(found: DueTimes | Literal[False], role: str) -> dict[str, Any]:
    """The fields of an item in a role, by the names of its result."""
    if not found:
        return {}
    relative = found.due.startswith("+")
    fields: dict[str, Any] = {
        "not_before": iso(found.not_before) if found.not_before else UNSET,
        "due_at": (duration(int(found.due[1:])) if relative else iso(int(found.due))) if found.due else UNSET,
        "recurrence_of": dashed(found.recurrence_of) if found.recurrence_of else UNSET,
    }
    if found.overdue:
        fields["overdue"] = True
    if found.recurs:
        fields["recurs"] = _recurring(found, role)
    return fields


def _recurring(found: DueTimes, role: str) -> Recurring:
    how = stored(found.recurs)
    after = None
    if role not in ("blocked", "terminal"):
        with suppress(CronSimError):  # its time zone is not known here
            after = following(how, max(found.after, found.not_before - 1))
    return Recurring(
        cron=how.cron,
        time_zone=how.zone,
        missed=how.missed,
        overlap=how.overlap,
        next_at=iso(after) if after else UNSET,
    )
