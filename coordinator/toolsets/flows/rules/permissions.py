"""Who may use workflows, and which tools their steps may call (README.md, 'Rights').

These rules apply to identified callers. Others may do everything, because there is no identity to check.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.toolsets.caller import Caller

USE = "workflow"
ADMIN = "workflow.admin"
EVERYTHING = "*"
READ = ".read"

_ENOUGH = frozenset((USE, ADMIN, "flows", EVERYTHING))
_ENOUGH_TO_READ = _ENOUGH | {USE + READ, "flows" + READ, EVERYTHING + READ}


def may_use(caller: Caller | None, read_only: bool) -> bool:
    return caller is None or not (_ENOUGH_TO_READ if read_only else _ENOUGH).isdisjoint(caller.permissions)


def administers(caller: Caller | None) -> bool:
    """Whether a caller may see and cancel all workflows, not only their own."""
    return caller is None or ADMIN in caller.permissions


def may_read(caller: Caller | None, creator: str, approver_roles: Iterable[str]) -> bool:
    """Whether a caller may see a workflow: it is their own, or they may release one of its gates."""
    return caller is None or administers(caller) or caller.id == creator or not caller.roles.isdisjoint(approver_roles)


def may_approve(caller: Caller | None, approver_role: str | None) -> bool:
    return caller is None or approver_role is None or approver_role in caller.roles


def may_call(permissions: frozenset[str], tool: str, group: str, read_only: bool) -> bool:
    """Whether these permissions are enough for a step to call a tool.

    Args:
        tool: the tool's name.
        group: the toolset or connection that the tool belongs to; empty: none.
    """
    enough = {tool, EVERYTHING} | ({group} if group else set())
    if read_only:
        enough |= {EVERYTHING + READ} | ({group + READ} if group else set())
    return not enough.isdisjoint(permissions)
