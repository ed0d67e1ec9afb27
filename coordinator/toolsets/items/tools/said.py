"""What items say, as results show it, by the table of fields."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cronsim import CronSimError
from msgspec import UNSET, Struct

from coordinator.toolsets.items.field_types.due_times import Recurring
from coordinator.toolsets.items.fields import FIELDS
from coordinator.toolsets.items.rules.kinds import FORMS
from coordinator.toolsets.items.rules.times.recurrence import following, stored
from coordinator.toolsets.items.rules.usage.budgets import of_item
from coordinator.toolsets.items.store.query import Said
from coordinator.toolsets.timestamp import iso

_MADE_HERE = ("properties", "traits")
"""What results show otherwise than it is stored: whoever makes them adds it."""


class Showing:
    """Shows what items say in results of one shape.

    Args:
        shape: a struct with some of the fields.
        left_out: fields of the struct that are not shown.
    """

    def __init__(self, shape: type[Struct], *left_out: str) -> None:
        named = set(shape.__struct_fields__) - set(left_out)
        self._forms = {
            field.letter: (field.attribute, None if shown is str else shown)
            for field in FIELDS
            if (shown := FORMS[field.name].shown) and field.attribute in named and field.name not in _MADE_HERE
        }
        self._with_usage, self._with_times = "usage" in named, "recurs" in named

    def __call__(self, said: Said, role: str) -> dict[str, Any]:
        """The fields that the item, in this role, has, by the names of the struct."""
        fields: dict[str, Any] = {}
        for letter, text in said.items():
            if (form := self._forms.get(letter)) is not None:
                name, form_of = form
                fields[name] = form_of(text) if form_of is not None else text
        if self._with_usage and ("us" in said or "ub" in said):
            fields["usage"] = of_item(said.get("us"), said.get("ub"))
        if self._with_times and "overdue" in said:
            fields["overdue"] = True
        if self._with_times and "rc" in said:
            fields["recurs"] = _recurring(said, role)
        return fields


def _recurring(said: Said, role: str) -> Recurring:
    how = stored(said["rc"])
    after = None
    if role not in ("blocked", "terminal"):
        with suppress(CronSimError):  # its time zone is not known here
            after = following(how, max(said["after"], int(said.get("nv", 0)) - 1))
    return Recurring(
        cron=how.cron,
        time_zone=how.zone,
        missed=how.missed,
        overlap=how.overlap,
        next_at=iso(after) if after else UNSET,
    )
