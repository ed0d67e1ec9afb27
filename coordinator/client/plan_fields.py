"""The fields that items of plans may have, and how plans write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coordinator.units import budget, demands, moment


class PlanField(NamedTuple):
    """How plans write a field."""

    form: Callable[[str], Any] = str
    """A text -> the value as ``manage_items`` takes it; raises ValueError."""
    mark: str = ""
    """What a mark of a task begins with, as in ``(not before: ...)``; empty: it has none."""
    listed: bool = False
    """Whether it may be a list of what the text has after commas."""


PLAN_FIELDS: Mapping[str, PlanField] = {
    "title": PlanField(),
    "description": PlanField(),
    "summary": PlanField(),
    "priority": PlanField(),
    "complexity": PlanField(),
    "tags": PlanField(listed=True),
    "type": PlanField(),
    "container": PlanField(),
    "traits": PlanField(listed=True),
    "requires": PlanField(),
    "resources": PlanField(demands, "resources"),
    "requiresVerification": PlanField(),
    "maxAttempts": PlanField(),
    "retryBackoffSeconds": PlanField(),
    "metadata": PlanField(),
    "properties": PlanField(),
    "statusLabel": PlanField(),
    "notBefore": PlanField(moment, "not before"),
    "dueAt": PlanField(moment, "due"),
    "recurs": PlanField(lambda text: {"cron": text}, "recurs"),
    "budget": PlanField(budget, "budget"),
}
"""Those of ``manage_items``, besides role and parent."""
MARKS = {field.mark: name for name, field in PLAN_FIELDS.items() if field.mark}
