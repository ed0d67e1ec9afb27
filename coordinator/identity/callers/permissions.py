"""The meaning of permissions. A permission opens whole toolsets, or only their tools that read.

    items            all tools of the toolset items
    items.read       its tools that change nothing
    items.admin      all tools of items, and to see who holds which item
    items.budget     to raise budgets of items, in their tools; items.admin implies it
    items.delegate   to get tokens for claims, which open nothing but the claimed item; items.admin implies it
    worker           the tools of the toolset worker; those of items imply it
    *                all tools of all toolsets
    *.read           all tools that change nothing
    workflow         the same as flows
    workflow.admin   the same, and what the toolset adds to it
    operate          to drain the fleet and to end claims of agents, in the console; it opens no tools

A broader permission implies the narrower ones, but none implies ``operate``, which is for people. Words of other
vocabularies (``openid``, ``profile``) are ignored.
Projects are not permissions: a credential names its projects, or is valid in all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from coordinator.settings.model import TOOLSETS
from coordinator.toolsets.caller import BUDGETS, DELEGATES

EVERYTHING = "*"
READ = ".read"
OPERATE = "operate"
_FLOWS, _WORKFLOW = "flows", "workflow"
_ADMIN = ".admin"
_ITEMS, _WORKER = "items", "worker"
_ADMINS = {_FLOWS: _WORKFLOW + _ADMIN, _ITEMS: _ITEMS + _ADMIN}
"""Toolset -> the permission for all its tools and more."""
ALL_RIGHTS = frozenset((EVERYTHING, OPERATE, *_ADMINS.values()))
"""Those of an operator at a terminal of the fleet."""


@lru_cache(maxsize=1024)
def sufficient(toolset: str, read_only: bool) -> frozenset[str]:
    """The permissions that each allow the use of a tool of ``toolset``."""
    enough = {toolset, EVERYTHING, *((_WORKFLOW,) if toolset == _FLOWS else ())}
    if toolset in _ADMINS:
        enough.add(_ADMINS[toolset])
    if toolset == _WORKER:  # a part of what the toolset items can do
        enough |= {_ITEMS, _ADMINS[_ITEMS]}
    if read_only:
        enough |= {toolset + READ, EVERYTHING + READ, *((_WORKFLOW + READ,) if toolset == _FLOWS else ())}
    return frozenset(enough)


@lru_cache(maxsize=1024)
def common(some: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """The permissions that each of two sets implies; none for a tool that one names and of which the other only has the
    reading.
    """
    for one, other in ((some, others), (others, some)):
        if all(_is_implied(permission, other) for permission in one):
            return one
    known = some | others | frozenset((*vocabulary(TOOLSETS), EVERYTHING + READ))
    narrower = {name + READ for name in known if "." not in name and name != OPERATE}
    return frozenset(one for one in known | narrower if _is_implied(one, some) and _is_implied(one, others))


@lru_cache(maxsize=4096)
def _is_implied(permission: str, by: frozenset[str]) -> bool:
    """Whether a set of permissions implies one, which may also be that of a connection or of a tool of one."""
    if permission in (EVERYTHING, OPERATE, *_ADMINS.values()):
        return permission in by
    for known in (BUDGETS, DELEGATES):
        if permission in known:
            return not known.isdisjoint(by)
    name, read_only = permission.removesuffix(READ), permission.endswith(READ)
    toolset = _FLOWS if name == _WORKFLOW else name
    enough = sufficient(toolset, read_only) | sufficient(name.partition(".")[0], read_only)
    return permission in by or not enough.isdisjoint(by)


def least(toolset: str, read_only: bool) -> str:
    """The narrowest permission to use a tool of ``toolset``; errors name this one."""
    name = _WORKFLOW if toolset == _FLOWS else toolset
    return name + READ if read_only else name


def vocabulary(toolsets: Collection[str]) -> tuple[str, ...]:
    """Every permission that names one of ``toolsets``: not ``operate``, because agents ask for all that is offered."""
    named = [permission for toolset in toolsets for permission in (toolset, toolset + READ)]
    if _WORKER in named:
        named.remove(_WORKER + READ)  # none of its tools only reads
    if _FLOWS in named:
        named += [_WORKFLOW, _WORKFLOW + READ]
    if _ITEMS in named:
        named += ["items.budget", "items.delegate"]
    return (*named, *(_ADMINS[toolset] for toolset in toolsets if toolset in _ADMINS))
