"""Which toolset has a tool, and where its arguments name who acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from coordinator.client.errors import error_of

TOOLSETS: Mapping[str, tuple[str, ...]] = {
    "items": (
        "manage_items query_items create_work_tree complete_tree manage_notes query_notes manage_dependencies",
        "query_dependencies advance_item get_next_status get_context get_next_item get_blocked_items claim_item",
    ),
    "worker": ("work_next work_note work_done work_failed work_ask",),
    "flows": ("workflow_create workflow_list workflow_get workflow_cancel workflow_step_ready",),
    "gateway": (
        "gateway.home gateway.search gateway.describe workflow.start workflow.get workflow.submit workflow.explain",
    ),
    "sessions": (
        "discover list_workflows health_check start_session get_workflow_status get_workflow next_activity",
        "get_activity yield_checkpoint resume_checkpoint present_checkpoint respond_checkpoint get_skills get_skill",
        "get_resource get_trace",
    ),
    "navigator": (
        "nav_start nav_situation nav_action nav_checkpoint list_workflows get_workflow get_workflow_activity",
        "get_checkpoint validate_transition health_check get_activities get_activity get_skills list_skills get_skill",
        "list_workflow_resources get_resource list_templates get_template discover_resources",
    ),
}
"""Toolset -> the names of its tools."""

_OWNERS: dict[str, list[str]] = {}
for _toolset, _lines in TOOLSETS.items():
    for _tool in " ".join(_lines).split():
        _OWNERS.setdefault(_tool, []).append(_toolset)

ACTING = frozenset(
    [
        "manage_items",
        "create_work_tree",
        "complete_tree",
        "manage_notes",
        "manage_dependencies",
        "claim_item",
        "workflow_create",
        "workflow_cancel",
        "workflow_step_ready",
    ]
)
"""Tools with the arguments ``actor`` and ``requestId``."""
ACTING_PER_ELEMENT = {"advance_item": "transitions", "manage_notes": "notes"}
"""Tools whose list of elements names the actor, in each."""
REQUESTED = ACTING | {"advance_item", "workflow.start", "workflow.submit"}
"""Tools with ``requestId``."""


UNREPEATABLE = frozenset(
    ("start_session", "next_activity", "yield_checkpoint", "resume_checkpoint", "respond_checkpoint")
)
"""Tools that change something and know no repeated call. Of those that a fleet has besides, nothing is known."""

TOLD_BY_HEADER = frozenset(("worker",))
"""Toolsets whose tools are told who acts by the header ``Fleet-Agent``."""


def toolset_of(tool: str) -> str:
    """The toolset of a tool; empty, that is what the fleet serves at ``/mcp``, for one that is not known here.

    Raises:
        Invalid: several have a tool of that name.
    """
    owners = _OWNERS.get(tool, ("",))
    if len(owners) > 1:
        raise error_of("VALIDATION_ERROR", f"toolset: must be given for {tool!r}; allowed: {', '.join(owners)}")
    return owners[0]


def repeatable(toolset: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call that may have been carried out can be made again, without a second effect."""
    return "requestId" in arguments or (toolset != "" and tool not in UNREPEATABLE)


def signed(tool: str, arguments: Mapping[str, Any], actor: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments with actor and requestId wherever the tool takes them and they are not given.

    Args:
        actor: who acts; None: the caller whom the token names.
    """
    signature: dict[str, Any] = {}
    if tool in REQUESTED and "requestId" not in arguments:
        signature["requestId"] = str(uuid4())
    if actor is None:
        return {**signature, **arguments}
    if tool in ACTING:
        signature["actor"] = actor
    part = ACTING_PER_ELEMENT.get(tool, "")
    found = arguments.get(part)
    if isinstance(found, list):
        found = [{"actor": actor, **one} if isinstance(one, Mapping) else one for one in found]
        arguments = {**arguments, part: found}
    return {**signature, **arguments}
