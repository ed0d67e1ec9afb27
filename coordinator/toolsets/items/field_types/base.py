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
from coordinator.toolsets.doc import doc

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

ItemRef = Annotated[str, doc("UUID or hex prefix (4 digits or more).")]
OptionalItemRef = Annotated[str | None, doc("UUID or hex prefix (4 digits or more).")]
RequestId = Annotated[
    str | None, doc("A new UUID per operation; repeated calls get the first answer.", extra=NOT_COMPARED)
]
OptionalActor = Annotated[Actor | None, doc("Who acts; needed for requestId.")]
FenceToken = Annotated[
    Annotated[int, Meta(ge=1, le=9007199254740991)] | None, doc("The claim's fenceToken; a stale one is refused.")
]
OnlyPriority = Annotated[str | None, doc("Only this priority.", enum=[*PRIORITIES, None])]
OnlyType = Annotated[str | None, doc("Only exactly this type.")]
AnyTag = Annotated[str | None, doc("Comma-separated, at most 20; an item needs one of them.")]
ChildrenOf = Annotated[str | None, doc("Only direct children of this item.")]
ItemsBelow = Annotated[str | None, doc("Only items below this one, at any depth.")]
ComplexityMax = Annotated[
    int | None, doc("1 to 10; leaves out items without one.", published={"minimum": 1, "maximum": 10})
]
GivenNoteKey = Annotated[str, doc("Name of the note, unique per item.", published={"minLength": 1, "maxLength": 200})]
GivenPhase = Annotated[str, doc("Phase it belongs to.", enum=PHASES)]
WantsAncestors = Annotated[bool, doc("Add the ancestors of each listed item.")]

# Results

ItemId = Annotated[str, doc("The item's UUID.")]
ParentId = Annotated[str, doc("The parent's UUID; absent for a root.")]
Title = Annotated[str, doc("The item's title.")]
Role = Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]
"""A role; the field says whose, or when."""
RoleName = Annotated[Role, doc("The item's role.")]
Priority = Annotated[str, doc("The item's priority.", enum=PRIORITIES)]
Complexity = Annotated[int | None, doc("1 (quick) to 10; null: not set.", published={"minimum": 1, "maximum": 10})]
Depth = Annotated[int, doc("0 for a root, at most 3.", published={"minimum": 0, "maximum": 3})]
Tags = Annotated[str, doc("Comma-separated; absent: none.")]
NullableTags = Annotated[str | None, doc("Comma-separated; null: none.")]
StatusLabel = Annotated[str, doc("Label beside the role; absent: none.")]
TypeName = Annotated[str, doc("The item's type; absent: none.")]
Summary = Annotated[str, doc("The item's summary.")]
Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
"""How many; the field says of what."""
Listed = Annotated[Count, doc("Length of the list.")]
Failed = Annotated[Count, doc("Refused; they had no effect.")]
IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""UTC with milliseconds, ``2026-01-01T12:00:00.250Z``; the field says of what."""
CreatedAt = Annotated[IsoTime, doc("Time of creation, UTC.")]
ModifiedAt = Annotated[IsoTime, doc("Time of the last change, UTC.")]
ClaimedBy = Annotated[str, doc("The holder's agent id.")]
ClaimedAt = Annotated[IsoTime, doc("When the claim was placed or last renewed, UTC.")]
ClaimExpiresAt = Annotated[IsoTime, doc("When it ends unless renewed, UTC.")]
OriginalClaimedAt = Annotated[IsoTime, doc("The holder's first claim on the item, UTC.")]
IsClaimed = Annotated[bool, doc("Whether somebody holds it now.")]
ErrorKind = Annotated[str, doc("transient: a retry may succeed; permanent: it will not.", enum=ERROR_KINDS)]
ContendedItemId = Annotated[str, doc("UUID of the contended item.")]
NoteId = Annotated[str, doc("The note's UUID.")]
NoteKey = Annotated[str, doc("The note's key.")]
Phase = Annotated[str, doc("Phase of the note.", enum=PHASES)]
NoteDescription = Annotated[str, doc("What belongs in the note.")]
Guidance = Annotated[str, doc("How to write the note; absent: none configured.")]
Skill = Annotated[str, doc("Skill to write the note with; absent: none configured.")]
GuidancePointer = Annotated[str | None, doc("Guidance for the first required note not filled; null: none.")]
SkillPointer = Annotated[str, doc("Skill for the first required note not filled; absent: none.")]
SchemaMatch = Annotated[bool, doc("Whether a note schema applies to the item.")]
NextOffset = Annotated[int | UnsetType, doc("offset of the next page; absent: this is the last.")]
Truncated = Annotated[bool | UnsetType, doc("True if there is more than one answer can hold.")]


class Failure(Result, kw_only=True):
    """One element of a batch that was refused."""

    index: Annotated[Count, doc("Its position, from 0; absent where id names it.")] | UnsetType = UNSET
    id: Annotated[str, doc("The id as the caller wrote it.")] | UnsetType = UNSET
    error: Annotated[str, doc("Why, in a sentence.")]


class ExpectedNote(Result, kw_only=True):
    """A note that the item's schema asks for."""

    key: NoteKey
    role: Phase
    required: Annotated[bool, doc("Whether leaving the phase needs it filled.")]
    description: NoteDescription
    exists: Annotated[bool, doc("Whether it is there, blank or not.")]
    guidance: Guidance | UnsetType = UNSET
    skill: Skill | UnsetType = UNSET


class NoteProgress(Result, kw_only=True):
    """Counts of the required notes of one phase."""

    filled: Annotated[Count, doc("With a body that is not blank.")]
    remaining: Annotated[Count, doc("Missing or blank.")]
    total: Annotated[Count, doc("filled + remaining.")]


class Ancestor(Result, kw_only=True):
    """One ancestor of an item."""

    id: ItemId
    title: Title
    depth: Depth


Progress = Annotated[NoteProgress | None, doc("Required notes of the present phase; null: no schema, or terminal.")]
ExpectedNotes = Annotated[list[ExpectedNote], doc("Notes that its schema asks for.")]
Ancestors = Annotated[list[Ancestor], doc("Root first, parent last; with includeAncestors.")]
Failures = Annotated[list[Failure], doc("What was refused; absent: nothing.")]
