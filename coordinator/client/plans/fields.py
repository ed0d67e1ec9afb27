"""The fields that items of plans may have, and how plans and task lists write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coordinator.units import budget, budget_text, demands, demands_text, moment, recurrence, recurrence_text


class PlanField(NamedTuple):
    """How plans write a field."""

    form: Callable[[str], Any] = str
    """A text -> the value as ``manage_items`` takes it; raises ValueError."""
    mark: str = ""
    """What a mark of a task begins with, as in ``(not before: ...)``; empty: it has none."""
    listed: bool = False
    """Whether it may be a list of what the text has after commas."""
    text: Callable[[Any], str] = str
    """The value -> the text that ``form`` reads so."""


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"must be a whole number, not {text!r}")
    return int(text)


def _true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


_NAMES = PlanField(lambda text: [name.strip() for name in text.split(",")], text=", ".join)
_YES = PlanField(_true, text=lambda value: str(value).lower())

PLAN_FIELDS: Mapping[str, PlanField] = {
    "title": PlanField(),
    "description": PlanField(),
    "summary": PlanField(mark="summary"),
    "priority": PlanField(),
    "complexity": PlanField(_whole, "complexity"),
    "tags": PlanField(mark="tags", listed=True),
    "type": PlanField(mark="type"),
    "container": _YES._replace(mark="container"),
    "traits": PlanField(mark="traits", listed=True),
    "requires": _NAMES._replace(mark="requires"),
    "assignee": PlanField(mark="assignee"),
    "resources": PlanField(demands, "resources", text=demands_text),
    "requiresVerification": _YES._replace(mark="requires verification"),
    "maxAttempts": PlanField(_whole, "max attempts"),
    "retryBackoffSeconds": PlanField(_whole, "retry backoff seconds"),
    "metadata": PlanField(),
    "properties": PlanField(),
    "statusLabel": PlanField(),
    "notBefore": PlanField(moment, "not before"),
    "dueAt": PlanField(moment, "due"),
    "recurs": PlanField(recurrence, "recurs", text=recurrence_text),
    "budget": PlanField(budget, "budget", text=budget_text),
}
"""Those of ``manage_items``, besides role and parent."""
MARKS = {field.mark: name for name, field in PLAN_FIELDS.items() if field.mark}
