"""Bases and field types that the contracts of the items toolset share.

Every field of a contract has a short description for the readers of ``tools/list``, mostly language models. A field
type that means the same everywhere is an alias here. A field with a meaning of its own adds a description to an alias,
which still gives the allowed values. Enums and bounds of the aliases are only published; ``rules`` checks arguments.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor
from coordinator.toolsets.canonical import NOT_COMPARED

ROLES = ("queue", "work", "review", "blocked", "terminal")
PHASES = ("queue", "work", "review")
"""The roles that notes belong to."""
PRIORITIES = ("high", "medium", "low")
ERROR_KINDS = ("permanent", "shedding", "transient")


class Arguments(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a tool; JSON names are camelCase."""


class Result(msgspec.Struct, rename="camel", omit_defaults=True):
    """A result or a part of one; fields that are UNSET are left out."""


# Arguments

ItemRef = Annotated[str, Meta(description="UUID or hex prefix (4 digits or more).")]
OptionalItemRef = Annotated[str | None, Meta(description="UUID or hex prefix (4 digits or more).")]
RequestId = Annotated[
    str | None,
    Meta(description="A new UUID per operation; repeated calls get the first answer.", extra=NOT_COMPARED),
]
OptionalActor = Annotated[Actor | None, Meta(description="Who acts; needed for requestId.")]
FenceToken = Annotated[
    Annotated[int, Meta(ge=1, le=9007199254740991)] | None,
    Meta(description="The claim's fenceToken; a stale one is refused."),
]
OnlyPriority = Annotated[
    str | None, Meta(description="Only this priority.", extra_json_schema={"enum": [*PRIORITIES, None]})
]
OnlyType = Annotated[str | None, Meta(description="Only exactly this type.")]
AnyTag = Annotated[str | None, Meta(description="Comma-separated, at most 20; an item needs one of them.")]
ChildrenOf = Annotated[str | None, Meta(description="Only direct children of this item.")]
ItemsBelow = Annotated[str | None, Meta(description="Only items below this one, at any depth.")]
ComplexityMax = Annotated[
    int | None,
    Meta(description="1 to 10; leaves out items without one.", extra_json_schema={"minimum": 1, "maximum": 10}),
]
GivenNoteKey = Annotated[
    str,
    Meta(
        description="Name of the note, unique per item.",
        extra_json_schema={"minLength": 1, "maxLength": 200},
    ),
]
GivenPhase = Annotated[str, Meta(description="Phase it belongs to.", extra_json_schema={"enum": list(PHASES)})]
WantsAncestors = Annotated[bool, Meta(description="Add the ancestors of each listed item.")]

# Results

ItemId = Annotated[str, Meta(description="The item's UUID.")]
ParentId = Annotated[str, Meta(description="The parent's UUID; absent for a root.")]
Title = Annotated[str, Meta(description="The item's title.")]
Role = Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]
"""A role; the field says whose, or when."""
RoleName = Annotated[Role, Meta(description="The item's role.")]
Priority = Annotated[str, Meta(description="The item's priority.", extra_json_schema={"enum": list(PRIORITIES)})]
Complexity = Annotated[
    int | None, Meta(description="1 (quick) to 10; null: not set.", extra_json_schema={"minimum": 1, "maximum": 10})
]
Depth = Annotated[int, Meta(description="0 for a root, at most 3.", extra_json_schema={"minimum": 0, "maximum": 3})]
Tags = Annotated[str, Meta(description="Comma-separated; absent: none.")]
NullableTags = Annotated[str | None, Meta(description="Comma-separated; null: none.")]
StatusLabel = Annotated[str, Meta(description="Label beside the role; absent: none.")]
TypeName = Annotated[str, Meta(description="The item's type; absent: none.")]
Summary = Annotated[str, Meta(description="The item's summary.")]
Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
"""How many; the field says of what."""
Listed = Annotated[Count, Meta(description="Length of the list.")]
Failed = Annotated[Count, Meta(description="Refused; they had no effect.")]
IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""UTC with milliseconds, ``2026-01-01T12:00:00.250Z``; the field says of what."""
CreatedAt = Annotated[IsoTime, Meta(description="Time of creation, UTC.")]
ModifiedAt = Annotated[IsoTime, Meta(description="Time of the last change, UTC.")]
ClaimedBy = Annotated[str, Meta(description="The holder's agent id.")]
ClaimedAt = Annotated[IsoTime, Meta(description="When the claim was placed or last renewed, UTC.")]
ClaimExpiresAt = Annotated[IsoTime, Meta(description="When it ends unless renewed, UTC.")]
OriginalClaimedAt = Annotated[IsoTime, Meta(description="The holder's first claim on the item, UTC.")]
IsClaimed = Annotated[bool, Meta(description="Whether somebody holds it now.")]
ErrorKind = Annotated[
    str,
    Meta(
        description="transient: a retry may succeed; permanent: it will not.",
        extra_json_schema={"enum": list(ERROR_KINDS)},
    ),
]
ContendedItemId = Annotated[str, Meta(description="UUID of the contended item.")]
NoteId = Annotated[str, Meta(description="The note's UUID.")]
NoteKey = Annotated[str, Meta(description="The note's key.")]
Phase = Annotated[str, Meta(description="Phase of the note.", extra_json_schema={"enum": list(PHASES)})]
NoteDescription = Annotated[str, Meta(description="What belongs in the note.")]
Guidance = Annotated[str, Meta(description="How to write the note; absent: none configured.")]
Skill = Annotated[str, Meta(description="Skill to write the note with; absent: none configured.")]
GuidancePointer = Annotated[
    str | None, Meta(description="Guidance for the first required note not filled; null: none.")
]
SkillPointer = Annotated[str, Meta(description="Skill for the first required note not filled; absent: none.")]
SchemaMatch = Annotated[bool, Meta(description="Whether a note schema applies to the item.")]
NextOffset = Annotated[int | UnsetType, Meta(description="offset of the next page; absent: this is the last.")]
Truncated = Annotated[bool | UnsetType, Meta(description="True if there is more than one answer can hold.")]


class Failure(Result, kw_only=True):
    """One element of a batch that was refused."""

    index: Annotated[Count, Meta(description="Its position, from 0; absent where id names it.")] | UnsetType = UNSET
    id: Annotated[str, Meta(description="The id as the caller wrote it.")] | UnsetType = UNSET
    error: Annotated[str, Meta(description="Why, in a sentence.")]


class ExpectedNote(Result, kw_only=True):
    """A note that the item's schema asks for."""

    key: NoteKey
    role: Phase
    required: Annotated[bool, Meta(description="Whether leaving the phase needs it filled.")]
    description: NoteDescription
    exists: Annotated[bool, Meta(description="Whether it is there, blank or not.")]
    guidance: Guidance | UnsetType = UNSET
    skill: Skill | UnsetType = UNSET


class NoteProgress(Result, kw_only=True):
    """Counts of the required notes of one phase."""

    filled: Annotated[Count, Meta(description="With a body that is not blank.")]
    remaining: Annotated[Count, Meta(description="Missing or blank.")]
    total: Annotated[Count, Meta(description="filled + remaining.")]


class Ancestor(Result, kw_only=True):
    """One ancestor of an item."""

    id: ItemId
    title: Title
    depth: Depth


Progress = Annotated[
    NoteProgress | None, Meta(description="Required notes of the present phase; null: no schema, or terminal.")
]
ExpectedNotes = Annotated[list[ExpectedNote], Meta(description="Notes that its schema asks for.")]
Ancestors = Annotated[list[Ancestor], Meta(description="Root first, parent last; with includeAncestors.")]
Failures = Annotated[list[Failure], Meta(description="What was refused; absent: nothing.")]
