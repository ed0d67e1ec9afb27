"""Selectors of claim_item and get_next_item: checks them and converts them for the scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from coordinator.errors import invalid
from coordinator.toolsets.items.contract import claims as contract
from coordinator.toolsets.items.contract.claims import ORDERS
from coordinator.toolsets.items.contract.next import GetNextItem
from coordinator.toolsets.items.fields import MAX_ASSIGNEE
from coordinator.toolsets.items.rules import values
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import PRIORITY_CODES, PRIORITY_NAMES, ROLE_CODES, ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.times.instants import interval
from coordinator.toolsets.timestamp import iso

OFFERED = -1
"""In place of a role: items that agents are offered."""
ACTIONABLE = ("queue", "work", "review", "blocked")
_WHY_NOT_OFFERED = {
    "quarantined": "it is quarantined, because attempts with it have failed: apply 'resume' first",
    "blocked": "it is in role blocked: apply 'resume' first",
    "template": "it is a template, which is never offered: its occurrences are",
    "dependencies": "{} blocking dependencies are not satisfied",
    "not_before": "it is not ready before {}: until then it is offered to nobody",
    "backoff": "an attempt on it has failed: it is offered to others again at {}",
    "assigned": "it is assigned to {!r}",
}
"""With the detail: how many, until when, or to whom."""


class Selector(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Filters and order for ``lua/selection/selection.lua``; filters that are not given are left out."""

    role: int = OFFERED
    parents: str = ""
    """``any``: items with open children, too."""
    parent: str = ""
    tags: list[str] = []
    priority: int = -1
    type: str = ""
    complexity: int = 0
    created_from: int = 0
    created_to: int = 0
    changed_from: int = 0
    changed_to: int = 0
    assignee: str = ""
    ancestor: str = ""
    other_than: str = ""
    """An item that is left out."""
    order: str = "priority"
    capabilities: str = ""
    """Of the agent, in order, separated by commas."""
    agent: str = ""
    """For whom a call asks that has no agent."""


class Filters(Protocol):
    """The filters of both tools."""

    role: str | None
    parents: str | None
    tags: str | None
    priority: str | None
    type: str | None
    complexity_max: int | None
    assignee: str | None
    created_after: str | None
    created_before: str | None
    role_changed_after: str | None
    role_changed_before: str | None
    order_by: str | None


def _bounds(after: str | None, before: str | None, name: str) -> tuple[int, int]:
    """The bounds of a time for the scripts, in ms; 0: no bound."""
    if not after and not before:
        return 0, 0
    low, high = interval(after, before, name)
    # An upper bound before 1970 becomes 1 ms, because 0 means no bound, and no item is that old.
    return low or 0, 0 if high is None else max(high, 1)


def as_given(packed: Mapping[str, Any]) -> contract.Selector:
    """A selector of the scripts as its caller wrote it, with full ids."""
    selector = msgspec.convert(packed, Selector)

    def time(ms: int) -> str | None:
        return iso(ms) if ms else None

    return contract.Selector(
        role=ROLE_NAMES[selector.role] if selector.role >= 0 else None,
        parents=selector.parents or None,
        parent_id=dashed(selector.parent) if selector.parent else None,
        ancestor_id=dashed(selector.ancestor) if selector.ancestor else None,
        tags=",".join(selector.tags) or None,
        priority=PRIORITY_NAMES[selector.priority] if selector.priority >= 0 else None,
        type=selector.type or None,
        complexity_max=selector.complexity or None,
        assignee=selector.assignee or None,
        created_after=time(selector.created_from),
        created_before=time(selector.created_to),
        role_changed_after=time(selector.changed_from),
        role_changed_before=time(selector.changed_to),
        order_by=selector.order if selector.order != "priority" else None,
    )


def selector(filters: Filters, parent: str, ancestor: str, place: str = "", *, offered: bool = False) -> Selector:
    """The checked selector; ``parent`` and ``ancestor`` are resolved ids or ''.

    Args:
        offered: by default, select what agents are offered: ready items of queue and abandoned ones, and none with open
            children. Else all ready items of queue.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field, below ``place``.
    """
    created = _bounds(filters.created_after, filters.created_before, f"{place}created")
    changed = _bounds(filters.role_changed_after, filters.role_changed_before, f"{place}roleChanged")
    most = filters.complexity_max
    if most is not None and not 1 <= most <= 10:
        raise invalid(f"{place}complexityMax", f"must be 1 to 10, not {most}")
    priority = values.not_blank(filters.priority)
    role = values.not_blank(filters.role) or ("" if offered else "queue")
    parents = values.not_blank(filters.parents) or ("after_children" if offered else "any")
    tags = values.tags(filters.tags, f"{place}tags", values.MAX_TAGS_ASKED)
    return Selector(
        role=ROLE_CODES[one_of(role, ACTIONABLE, f"{place}role")] if role else OFFERED,
        parents="any" if one_of(parents, contract.PARENTS, f"{place}parents") == "any" else "",
        parent=parent,
        tags=values.names_in(tags),
        priority=PRIORITY_CODES[one_of(priority, PRIORITY_NAMES, f"{place}priority")] if priority else -1,
        type=values.type_name(filters.type, f"{place}type"),
        complexity=most or 0,
        created_from=created[0],
        created_to=created[1],
        changed_from=changed[0],
        changed_to=changed[1],
        assignee=values.bounded(filters.assignee, f"{place}assignee", MAX_ASSIGNEE) if filters.assignee else "",
        ancestor=ancestor,
        order=one_of(values.not_blank(filters.order_by) or "priority", ORDERS, f"{place}orderBy"),
    )


def recommended(args: GetNextItem, parent: str, ancestor: str) -> Selector:
    """The checked selector of ``get_next_item``, with what the caller says of itself; else as ``selector``."""
    wanted = selector(args, parent, ancestor)
    wanted.capabilities = ",".join(values.capabilities(args.capabilities, "capabilities"))
    wanted.agent = values.not_blank(args.agent_id)
    return wanted


def why_not_offered(why: str, detail: int | str) -> str:
    """Why selectors do not find an item, in words; ``detail`` as ``lua/transitions/readiness.lua`` has it."""
    detail_said = iso(detail) if why in ("not_before", "backoff") and isinstance(detail, int) else detail
    return _WHY_NOT_OFFERED[why].format(detail_said)
