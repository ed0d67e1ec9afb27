"""Calls of the agents' tools by which people act in the console, as acts.

An act that the command line has, too, has the same action and target here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from coordinator.operations.log import Act

_NAMED = 10
"""Ids that a record names, of a call about more of them."""
_LONGEST = 64
"""Characters of an id, or of a detail: what was sent may be anything."""
CALLS: Mapping[str, Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "items": {
        "manage_items": ("write_items", "item", ("id", "items.id", "items.parent_id")),
        "manage_notes": ("write_notes", "item", ("notes.item_id",)),
        "manage_dependencies": ("write_dependencies", "item", ("id", "dependencies.to_item_id")),
        "advance_item": ("advance_items", "item", ("transitions.item_id",)),
        "complete_tree": ("end_tree", "item", ("root_id", "item_ids")),
    },
    "flows": {
        "workflow_cancel": ("cancel_flow", "flow", ("id",)),
        "workflow_step_ready": ("release_step", "step", ("step_id",)),
    },
    "gateway": {"workflow.submit": ("submit_transition", "instance", ("workflow_id",))},
    "sessions": {"respond_checkpoint": ("answer_checkpoint", "session", ("session_id",))},
}
"""The tools that people call, by toolset: the action, what kind of thing it is about, and which arguments name that.
Claiming is for agents, deleting for the command line."""
_DETAILS = ("operation", "trigger", "transition", "transitions.trigger", "notes.key")
"""Arguments that say what is done, more exactly."""


def act_of_call(toolset: str, tool: str, meant: Any, project: str) -> Act:
    """A call of one of ``CALLS`` as an act, given its decoded arguments."""
    action, kind, named = CALLS[toolset][tool]
    ids, details = _values(meant, named), _values(meant, _DETAILS)
    if tool == "manage_items":
        fields = (name for item in meant.items or () for name in item.__struct_fields__ if _said(getattr(item, name)))
        details += [name for name in dict.fromkeys(fields) if name != "id"]
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return Act(action, kind, ", ".join(ids[:_NAMED]) + more, project, ", ".join(details))


def _values(meant: Any, paths: tuple[str, ...]) -> list[str]:
    values_said: list[Any] = []
    for path in paths:
        first, _, second = path.partition(".")
        value = getattr(meant, first, None)
        values = value if isinstance(value, list) else [value]
        values_said += [getattr(value, second, None) for value in values] if second else values
    return [str(value)[:_LONGEST] for value in dict.fromkeys(values_said) if _said(value)]


def _said(value: object) -> bool:
    return value is not None and value is not UNSET
