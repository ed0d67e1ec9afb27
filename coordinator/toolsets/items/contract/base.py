"""Bases and field types that the contracts of the items toolset share."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor

ROLES = ("queue", "work", "review", "blocked", "terminal")
PRIORITIES = ("high", "medium", "low")


class Arguments(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a tool; JSON names are camelCase."""


class Result(msgspec.Struct, rename="camel", omit_defaults=True):
    """A result or a part of one; fields that are UNSET are left out."""


ItemRef = Annotated[str, Meta(description="Item id: a UUID, or the first 4 or more of its hex digits.")]
OptionalItemRef = Annotated[str | None, Meta(description="Item id: a UUID, or the first 4 or more of its hex digits.")]
RequestId = Annotated[
    str | None,
    Meta(
        description="UUID made by the caller for one logical operation. With an actor, repeating the call within "
        "10 minutes returns the first answer from any process instead of acting twice."
    ),
]
OptionalActor = Annotated[Actor | None, Meta(description="Who acts; keys idempotency and attribution.")]
FenceToken = Annotated[
    Annotated[int, Meta(ge=1, le=9007199254740991)] | None,
    Meta(description="The fenceToken of the claim acted under; a stale one is refused."),
]
Role = Annotated[str | None, Meta(extra_json_schema={"enum": list(ROLES)})]


class Failure(Result, kw_only=True):
    """One element of a batch that was refused."""

    index: int | UnsetType = UNSET
    id: str | UnsetType = UNSET
    error: str


class ExpectedNote(Result, kw_only=True):
    """A note that the item's schema asks for."""

    key: str
    role: str
    required: bool
    description: str
    exists: bool
    guidance: str | UnsetType = UNSET
    skill: str | UnsetType = UNSET


class NoteProgress(Result, kw_only=True):
    """Counts of the required notes of one phase."""

    filled: int
    remaining: int
    total: int


class Ancestor(Result, kw_only=True):
    """One step of the way from the root to an item."""

    id: str
    title: str
    depth: int
