"""What is known of agents: who they are, and what they do now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.actor import KINDS, Trusted
from coordinator.toolsets.items.rules.board import MAX_ROWS
from coordinator.toolsets.items.store.base import LIBRARY, pack
from coordinator.toolsets.items.store.boards.rows import ItemRow

_LETTERS = {kind: kind[0] for kind in KINDS}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


class Claimant(NamedTuple):
    """An agent as scripts that claim take it: two arguments."""

    id: str
    who: str = "e-"
    """A letter of its kind, whether its identity was verified, and if it names capabilities '=' and these, separated by
    commas (``lua/agents/agents.lua``)."""


def claimant(who: Trusted, capabilities: Sequence[str] | None = None) -> Claimant:
    """An actor as a claimant, with the capabilities that it names in this call; None: it names none."""
    known_as = _LETTERS[who.echo.kind] + ("v" if who.verification.status == "verified" else "-")
    return Claimant(who.id, known_as if capabilities is None else f"{known_as}={','.join(capabilities)}")


class Agent(NamedTuple):
    """An agent that claimed, renewed or waited in the last day; times in ms, 0: not so."""

    id: str
    noted: int
    """When it was last noted as seen, which is not done with each call."""
    known_as: str
    """As ``Claimant.who``, without capabilities."""
    listed: str
    """Its capabilities, separated by commas."""
    item: str
    """The item that it holds; '' if it holds none."""
    holds_since: int
    holds_until: int
    waits_since: int
    selector: dict[str, Any] | list[Any] | bool
    """What its parked claim asks for (``lua/selection/selectors.lua``); False: it does not wait."""
    drained: str
    """The name under which it is drained; '' if it is not."""
    attempts: int
    """Of its claims, how many ended in work or review without taking the item further."""

    @property
    def seen(self) -> int:
        """When it was last seen: what it holds or waits for, it has asked for."""
        return max(self.noted, self.holds_since, self.waits_since)

    @property
    def kind(self) -> str:
        return _KINDS[self.known_as[:1]]

    @property
    def verified(self) -> bool:
        return self.known_as[1:] == "v"

    @property
    def capabilities(self) -> list[str]:
        return self.listed.split(",") if self.listed else []

    @property
    def wanted(self) -> dict[str, Any] | None:
        """What its parked claim asks for; None: it does not wait."""
        if self.selector is False:
            return None
        return self.selector if isinstance(self.selector, dict) else {}


class Agents(NamedTuple):
    """Some agents of a project, last seen first, and numbers of all."""

    now: int
    known: int
    """Agents."""
    holding: int
    """Live claims."""
    waiting: int
    """Parked claims."""
    drains: list[tuple[str, int]]
    """Names of agents that are drained, and since when."""
    agents: list[Agent]


AgentList = Literal["seen", "holding", "waiting"]
"""All agents, last seen first; those with a live claim, or with a parked one, the longest first."""


class AgentPage(NamedTuple):
    """A page of a list of agents, for people."""

    now: int
    known: int
    """As ``Agents``."""
    holding: int
    waiting: int
    total: int
    """How many are in the list."""
    more: bool
    """Whether there may be more, which were not looked at."""
    agents: list[Agent]
    items: list[ItemRow | Literal[False]]
    """Of each of these, the item that it holds."""
    used: list[str | Literal[False]]
    """And its entry of usage (``lua/usage/sums.lua``)."""


_READ = Script(LIBRARY, "read_agents", Agents)
_LIST = Script(LIBRARY, "list_agents", AgentPage)
_EVERYBODY = ""


async def read_agents(store: Store, project: str, offset: int, limit: int) -> Agents:
    """A page of a project's agents. Raises ToolFailure as ``Store.run`` says."""
    return await store.run(_READ, project, _EVERYBODY, offset, limit)


async def read_agents_named(store: Store, project: str, names: Sequence[str]) -> list[Agent]:
    """These agents; one that is not known was seen at 0. Raises ToolFailure as ``Store.run`` says."""
    return (await store.run(_READ, project, pack(names), 0, 0)).agents if names else []


async def list_agents(
    store: Store, project: str, which: AgentList, part: str = "", offset: int = 0, limit: int = MAX_ROWS
) -> AgentPage:
    """A page of a list of agents with what they hold, in one read. Raises ToolFailure as ``Store.run`` says.

    Args:
        part: only those whose names contain this, in any case.
    """
    return await store.run(_LIST, project, which, part, offset, min(limit, MAX_ROWS))
