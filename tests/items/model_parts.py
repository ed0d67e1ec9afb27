"""What the model of items is made of: items, edges, trees, and the outcomes of transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.items.claimable import Claimable
from tests.items.model_schemas import Note, Notes

FORWARD = ("queue", "work", "review", "terminal")
PRIORITIES = ("high", "medium", "low")
LABELS = {"start": "in-progress", "complete": "done", "block": "blocked", "cancel": "cancelled"}
MAX_DEPTH = 3
NO_RESULT = "result: is allowed only with a transition that ends the item"


@dataclass
class Item(Claimable):
    id: str
    parent: str | None
    shown: dict[str, Any]
    """Fields set by callers: used only for ranking and the choice of a schema."""
    created: str = ""
    label: str | None = None
    fence: int = 0
    original: str = ""
    """When the agent of its claim first claimed it."""
    follows: bool = False
    """Its last open child has ended or gone while it was in work, and it was not claimed since."""
    traits: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=dict)


class Edge(NamedTuple):
    source: str
    target: str
    type: str
    threshold: str | None = None

    @property
    def blocker(self) -> str:
        return self.target if self.type == "IS_BLOCKED_BY" else self.source

    @property
    def blocked(self) -> str:
        return self.source if self.type == "IS_BLOCKED_BY" else self.target


@dataclass
class Tree:
    """The arguments of create_work_tree, by ref."""

    items: dict[str, Item]
    edges: list[Edge]
    notes: list[tuple[str, str, Note]]
    blank: bool
    """Whether the other notes of the schemas are added."""


class Change(NamedTuple):
    """A cascade: an item that a transition changed, or would have without missing notes."""

    item: str
    before: str
    after: str
    missing: tuple[str, ...] = ()


@dataclass
class Outcome:
    """The outcome of a transition: a refusal with its reason, or the new state and all consequences."""

    refusal: str = ""
    blockers: set[tuple[str, str, str]] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    before: str = ""
    after: str = ""
    label: str | None = None
    cascades: list[Change] = field(default_factory=list)
    unblocked: set[str] = field(default_factory=set)
