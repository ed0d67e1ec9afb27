"""What permissions mean: whole toolsets, for reading or altogether.

    items         all tools of the toolset items
    items.read    those of its tools that change nothing
    *             all tools of all toolsets
    *.read        all tools that change nothing
    workflow      the same as flows (seed 003); ``workflow.admin`` too, and what it adds is up to that toolset

A broader permission implies the narrower ones. Words of other vocabularies (``openid``,
``profile``) may stand beside them and mean nothing here. Projects are no permissions: a
credential names those that it is for, or is for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

EVERYTHING = "*"
READ = ".read"
_FLOWS, _WORKFLOW, _ADMIN = "flows", "workflow", "workflow.admin"


@lru_cache(maxsize=1024)
def sufficient(toolset: str, read_only: bool) -> frozenset[str]:
    """The permissions any of which is enough to use a tool of ``toolset``."""
    enough = {toolset, EVERYTHING, *((_WORKFLOW, _ADMIN) if toolset == _FLOWS else ())}
    if read_only:
        enough |= {toolset + READ, EVERYTHING + READ, *((_WORKFLOW + READ,) if toolset == _FLOWS else ())}
    return frozenset(enough)


def least(toolset: str, read_only: bool) -> str:
    """The narrowest permission to use a tool of ``toolset``, which is what a caller is asked to get."""
    name = _WORKFLOW if toolset == _FLOWS else toolset
    return name + READ if read_only else name


def vocabulary(toolsets: Iterable[str]) -> tuple[str, ...]:
    """Every permission that names one of ``toolsets``."""
    named = [permission for toolset in toolsets for permission in (toolset, toolset + READ)]
    if _FLOWS in named:
        named += [_WORKFLOW, _WORKFLOW + READ, _ADMIN]
    return tuple(named)
