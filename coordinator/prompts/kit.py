"""The agent kit: the same texts as files for agents that are told what to do by their host, not by MCP prompts.

A *skill* is a ``SKILL.md`` with a name and a description at its top; a *block* is a part of an ``AGENTS.md`` (or
``CLAUDE.md``, ``GEMINI.md``) between two marks, which can be renewed without touching the rest. ``config/agents`` has
the skills.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from coordinator.prompts.texts import PROMPTS


class Role(NamedTuple):
    """What an agent is for."""

    name: str
    prompt: str
    toolset: str
    """Whose tools its text names."""
    description: str
    """When the skill is to be used."""


ROLES = {
    one.name: one
    for one in (
        Role(
            "worker",
            "work",
            "worker",
            "Work on items of a shared backlog with the tools work_next, work_note, work_done, work_failed and "
            "work_ask of the MCP server fleet. Use when told to work for a fleet, to take the next item, or to work "
            "off a backlog.",
        ),
        Role(
            "orchestrator",
            "orchestrate",
            "items",
            "Plan work for other agents on a shared backlog with create_work_tree, get_context, advance_item and "
            "other tools of the MCP server fleet, wait for it, and clear what is stuck. Use when told to plan, split "
            "or coordinate work for a fleet of agents.",
        ),
    )
}

_IDENTIFIED = "Where a token identifies you, leave `actor` out of every call.\n"


def text(role: Role) -> str:
    """The instructions for a role, in Markdown."""
    told = PROMPTS[role.prompt].text({role.toolset}, {}, {}).strip() + "\n"
    return told.replace("## Rules of every call\n", f"## Rules of every call\n\n{_IDENTIFIED}", 1)


def skill(role: Role) -> str:
    """A ``SKILL.md``."""
    return f"---\nname: fleet-{role.name}\ndescription: {role.description}\n---\n{text(role)}"


def block(role: Role) -> str:
    """A block for an ``AGENTS.md``."""
    begin, end = _marks(role)
    lowered = re.sub(r"^(#+ )", r"#\1", text(role), flags=re.MULTILINE)
    return f"{begin}\n## Working for the fleet: {role.name}\n\n{lowered}{end}\n"


def placed(role: Role, document: str) -> str:
    """A document with the block of a role: in the place of the one that it has, else at its end.

    Raises:
        ValueError: only one of the two marks is there, or one of them twice.
    """
    begin, end = _marks(role)
    counts = document.count(begin), document.count(end)
    if counts == (0, 0):
        return f"{document.rstrip()}\n\n{block(role)}".lstrip("\n")
    before, _, rest = document.partition(begin)
    if counts != (1, 1) or end not in rest:
        raise ValueError(f"has not exactly one pair of the marks {begin} and {end}")
    return f"{before}{block(role).rstrip()}{rest.partition(end)[2]}"


def _marks(role: Role) -> tuple[str, str]:
    return f"<!-- fleet {role.name}: begin -->", f"<!-- fleet {role.name}: end -->"
