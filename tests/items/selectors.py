"""Claims by selector, short, and a plain Python model of what a selector finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import ms

ORDER = ("queue", "work", "review", "terminal")
PRIORITIES = ("high", "medium", "low")


def call_of(
    agent: str, selector: Json | None = None, *, request_id: str = "", wait_ms: int = 0, **more: Any
) -> dict[str, Any]:
    """The arguments of a claim by selector; ``more`` are fields of the entry, ``releases`` (ids, or whole entries),
    ``include``, ``start`` and ``capabilities``."""
    releases = more.pop("releases", ())
    include: Json = {name: more.pop(name) for name in ("include", "start") if name in more}
    if (named := more.pop("capabilities", None)) is not None:
        include["capabilities"] = named
    arguments: Json = {
        "actor": actor(agent),
        "claims": [{"selector": selector or {}, **more}],
        "requestId": request_id or fresh_id(),
        **include,
    }
    if releases:
        arguments["releases"] = [{"itemId": item} if isinstance(item, str) else item for item in releases]
    if wait_ms:
        arguments["waitMs"] = wait_ms
    return arguments


async def take(tools: Client, agent: str, selector: Json | None = None, **options: Any) -> Json:
    """Claims by selector; the entry's result. What is held back is counted now."""
    await tools.forget_told(agent)
    answer = await tools("claim_item", **call_of(agent, selector, **options))
    result: Json = answer["claimResults"][0]
    return result


@dataclass
class Thing:
    """An item in the model."""

    id: str
    parent: str | None
    role: str
    priority: str
    complexity: int | None
    tags: set[str]
    type: str | None
    created: int
    changed: int
    holder: str | None = None
    left: bool = False
    """Whether it is abandoned, if unheld."""
    requires: frozenset[str] = frozenset()
    """Capabilities of agents that may take it."""
    assignee: str | None = None
    """Who alone is offered it, or its slots."""


@dataclass
class Model:
    """Items, holders and dependencies: (blocker, blocked) -> threshold."""

    things: dict[str, Thing] = field(default_factory=dict)
    edges: dict[tuple[str, str], str] = field(default_factory=dict)

    def ancestors(self, thing: Thing) -> Iterable[Thing]:
        while thing.parent is not None:
            thing = self.things[thing.parent]
            yield thing

    def waits(self, thing: Thing) -> bool:
        """Whether a dependency is unsatisfied; a blocked blocker never satisfies."""
        return any(
            self.things[blocker].role == "blocked" or ORDER.index(self.things[blocker].role) < ORDER.index(threshold)
            for (blocker, blocked), threshold in self.edges.items()
            if blocked == thing.id
        )

    def waits_for_children(self, thing: Thing) -> bool:
        """Whether a child is open, so that the item is not offered."""
        below = (child for child in self.things.values() if child.parent == thing.id)
        return thing.role in ("queue", "work") and any(child.role != "terminal" for child in below)

    def shielded(self, thing: Thing, agent: str | None, selector: Mapping[str, Any]) -> bool:
        """Whether another agent holds an ancestor; with a scope, only below that."""
        scope = selector.get("parentId") or selector.get("ancestorId")
        between = takewhile(lambda above: above.id != scope, self.ancestors(thing))
        return any(above.holder not in (None, agent) for above in between)

    def abandoned(self, thing: Thing) -> bool:
        return thing.left and thing.holder is None

    def suits_role(self, thing: Thing, role: str | None, on_offer: bool) -> bool:
        if role or not on_offer:
            return thing.role == (role or "queue")
        return thing.role == "queue" or self.abandoned(thing)

    def matches(self, thing: Thing, selector: Mapping[str, Any], on_offer: bool) -> bool:
        tags = {tag.strip() for tag in (selector.get("tags") or "").split(",")} - {""}
        least = selector.get("complexityMax")
        times = (("createdAfter", "createdBefore", thing.created),
                 ("roleChangedAfter", "roleChangedBefore", thing.changed))  # fmt: skip
        return (
            self.suits_role(thing, selector.get("role"), on_offer)
            and selector.get("parentId") in (None, thing.parent)
            and selector.get("ancestorId") in (None, *(above.id for above in self.ancestors(thing)))
            and (not tags or bool(tags & thing.tags))
            and selector.get("priority") in (None, thing.priority)
            and selector.get("type") in (None, thing.type)
            and (least is None or (thing.complexity is not None and thing.complexity <= least))
            and all(
                (selector.get(after) is None or ms(selector[after]) <= at)
                and (selector.get(before) is None or at <= ms(selector[before]))
                for after, before, at in times
            )
        )

    @staticmethod
    def is_for(thing: Thing, agent: str, selector: Mapping[str, Any]) -> bool:
        """Whether a selector of an agent may find what is assigned as the item is."""
        wanted = selector.get("assignee")
        return (
            thing.assignee == wanted if wanted else thing.assignee in (None, agent, agent.rpartition("/")[0] or agent)
        )

    def found(
        self,
        selector: Mapping[str, Any],
        agent: str | None = None,
        claimed: bool = False,
        able: Iterable[str] = (),
        asks: str = "",
    ) -> Sequence[str]:
        """Ids in the order offered to ``agent``, with these capabilities, by a claim; without an agent, recommended.

        ``claimed`` adds held and shielded items; ``asks`` is for whom is asked without an agent.
        """
        on_offer = agent is not None
        parents = selector.get("parents") or ("after_children" if on_offer else "any")
        things = [
            thing
            for thing in self.things.values()
            if self.matches(thing, selector, on_offer)
            and thing.requires <= set(able)
            and self.is_for(thing, agent or asks, selector)
            and not self.waits(thing)
            and (parents == "any" or not self.waits_for_children(thing))
            and (claimed or (thing.holder is None and not self.shielded(thing, agent, selector)))
        ]
        order = selector.get("orderBy") or "priority"
        if order == "priority":
            things.sort(key=lambda one: (one.complexity or 11, one.created, one.id))
            if on_offer and not selector.get("role"):
                things.sort(key=lambda one: not self.abandoned(one))
            things.sort(key=lambda one: PRIORITIES.index(one.priority))
        else:
            things.sort(key=lambda one: (-one.created if order == "newest" else one.created, one.id))
        return [thing.id for thing in things]

    def claim(self, agent: str, item: str) -> None:
        """One claim per agent: the earlier one is released."""
        for thing in self.things.values():
            if thing.holder == agent:
                thing.holder = None
        self.things[item].holder = agent
        self.things[item].left = self.things[item].role == "work"
