"""The section ``budgets``: how much agents and projects may use."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings.problems import Faults
from coordinator.settings.setting import setting

MOST = 10**15
"""The greatest limit of a budget."""

Limit = Annotated[int, setting(ge=1, le=MOST)]
AgentNames = Annotated[
    str,
    setting(
        pattern=r"^(?s:[^*]{0,500}\*?)\Z", allowed="the id of an agent, or the beginning of several, followed by '*'"
    ),
]
_Project = Annotated[str, setting(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z", allowed="the name of a project")]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of the structs in this module; fields with their defaults are not printed."""


class Limits(_Part, frozen=True, kw_only=True):
    """A budget: it is spent once one of its limits is reached.

    Raises:
        Faults: it has no limit.
    """

    cost_micro_usd: Limit | None = None
    """Millionths of a US dollar."""
    tokens: Limit | None = None
    """Input and output together."""
    wall_ms: Limit | None = None
    """Milliseconds of work."""

    def __post_init__(self) -> None:
        if (self.cost_micro_usd, self.tokens, self.wall_ms) == (None, None, None):
            raise Faults([((), "needs at least one of costMicroUsd, tokens and wallMs")])


class Periods(_Part, frozen=True, kw_only=True):
    """The budgets of an agent or a project.

    Raises:
        Faults: there are none.
    """

    day: Limits | None = None
    """Per day, in UTC."""
    total: Limits | None = None

    def __post_init__(self) -> None:
        if self.day is None and self.total is None:
            raise Faults([((), "needs at least one of day and total")])


class Budgets(_Part, frozen=True, kw_only=True):
    agents: dict[AgentNames, Periods] = {}
    """Of each agent with this name, or whose name begins so. The longest beginning counts, a full name before all."""
    projects: dict[_Project, Periods] = {}
