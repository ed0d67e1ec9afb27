"""The format of whole projects: lines of JSON, each an object whose ``_type`` says what it is.

First the project, then its items (parents before children), notes, dependencies, transitions (oldest first) and sums of
usage, at last an end with the number of lines, by which a file that is cut off is known. Times are ISO 8601 in UTC.
Claims, proofs and what waits are not part of it. ``native.schema.json`` is the published schema of a line.

Version 2 has the sums of usage by day, agent and model; 1 had those of items alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.interchange.formats.lines import MOST_BYTES
from coordinator.projects.errors import BadFile
from coordinator.toolsets.items import FIELDS, Field, ItemSpec, Kind

VERSION = 2
SCHEMA_FILE = Path(__file__).with_name("native.schema.json")

_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
Uuid = Annotated[str, Meta(pattern=_UUID)]
Time = Annotated[str, Meta(pattern=_TIME)]
Role = Literal["queue", "work", "review", "terminal", "blocked"]
Phase = Literal["queue", "work", "review"]
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
By = Literal["day", "agent", "model"]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Limit = Annotated[int, Meta(ge=1, le=10**15)]
Entry = Annotated[str, Meta(pattern=r"^[0-9]{1,15}-[0-9]{1,9}$", description="Its place in the history.")]
LongText = Annotated[str, Meta(max_length=500_000)]


class _Line(Struct, kw_only=True, omit_defaults=True, rename="camel", tag_field="_type", forbid_unknown_fields=True):
    pass


class Project(_Line, kw_only=True, tag="project"):
    """The first line."""

    version: Annotated[int, Meta(description="Of the format.")]
    project: Annotated[str, Meta(description="Its name.")]
    exported_at: Time


class Demand(Struct, kw_only=True, omit_defaults=True):
    """A resource that claims of an item take."""

    key: str
    mode: Literal["exclusive", "shared"] = "exclusive"
    units: int = 1


class Attempt(Struct, kw_only=True, omit_defaults=True, rename={"began": "from", "claimed_by": "claimedBy"}):
    """A claim that ended without taking the item further."""

    began: Time
    until: Time
    ended: Literal["expired", "taken_over", "released"]
    claimed_by: str
    reason: str = ""
    detail: str = ""


class Recurs(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """How a template recurs."""

    cron: Annotated[str, Meta(min_length=1, max_length=200)]
    time_zone: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"
    missed: Literal["skip", "one", "all"] = "one"
    overlap: Literal["skip", "allow"] = "skip"
    made_until: Annotated[Time, Meta(description="Up to when its times have been dealt with.")]


class UsageSum(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What was used."""

    input_tokens: Amount = 0
    output_tokens: Amount = 0
    cached_tokens: Amount = 0
    cost_micro_usd: Amount = 0
    wall_ms: Amount = 0


class Budget(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What may be used."""

    cost_micro_usd: Limit | UnsetType = UNSET
    tokens: Limit | UnsetType = UNSET
    wall_ms: Limit | UnsetType = UNSET


class Item(_Line, kw_only=True, tag="item"):
    """A work item. What is stated here is special to the format; ``ITEM`` has the plain fields, too."""

    id: Uuid
    parent_id: Uuid | UnsetType = UNSET
    title: Annotated[str, Meta(min_length=1, max_length=500)]
    description: LongText = ""
    metadata: LongText = ""
    properties: Annotated[LongText, Meta(description="A JSON object.")] = ""
    traits: str = ""
    role: Role
    previous_role: Annotated[Phase | UnsetType, Meta(description="While blocked: what resume returns to.")] = UNSET
    priority: Literal["high", "medium", "low"]
    tags: str = ""
    type: Annotated[str, Meta(max_length=200)] = ""
    resources: Annotated[
        Annotated[list[Demand], Meta(max_length=16)] | UnsetType,
        Meta(description="What a claim takes; absent: as type and traits say."),
    ] = UNSET
    not_before: Time | UnsetType = UNSET
    due_at: Time | UnsetType = UNSET
    due_after_ms: Annotated[Count | UnsetType, Meta(description="Of a template: from each of its times on.")] = UNSET
    recurs: Recurs | UnsetType = UNSET
    recurrence_of: Annotated[Uuid | UnsetType, Meta(description="The template that it is an occurrence of.")] = UNSET
    budget: Annotated[Budget | UnsetType, Meta(description="For the item and everything below it.")] = UNSET
    usage: Annotated[UsageSum | UnsetType, Meta(description="For the item itself.")] = UNSET
    usage_below: Annotated[UsageSum | UnsetType, Meta(description="For what is or was below it.")] = UNSET
    created_at: Time
    modified_at: Time
    role_changed_at: Time
    fence: Annotated[Count, Meta(description="Of its last claim; absent: it was never claimed.")] = 0
    came_by: Annotated[
        Literal["cascade", "quarantine"] | UnsetType,
        Meta(description="Not claimed since it came to its role by a cascade or reopening, or out of quarantine."),
    ] = UNSET
    after_children: Annotated[
        Literal["offered", "permanent"] | UnsetType,
        Meta(description="Its last open child has ended: it is offered in work, or as a permanent parent not at all."),
    ] = UNSET
    quarantined_at: Time | UnsetType = UNSET
    attempts: Annotated[Count, Meta(description="That count towards the quarantine.")] = 0
    last_attempts: Annotated[list[Attempt], Meta(max_length=20, description="The last one first.")] = []
    last_transition: Annotated[Entry | UnsetType, Meta(description="The transition that came last.")] = UNSET


_PLAIN: dict[Kind, Callable[[Field], tuple[Any, Any]]] = {
    Kind.TEXT: lambda field: (Annotated[str, Meta(max_length=field.most or None)], ""),
    Kind.NUMBER: lambda field: (Annotated[int, Meta(ge=field.least, le=field.most or None)] | UnsetType, UNSET),
    Kind.YES: lambda field: (Annotated[bool, Meta(description=field.fact or None)], False),
    Kind.NAMES: lambda _: (list[str], []),
}
"""The type of a plain field, and its value where a line does not have it."""
ITEM = cast(
    type[Item],
    msgspec.defstruct(
        "Item",
        [
            (field.attribute, *_PLAIN[field.kind](field))
            for field in FIELDS
            if field.kind in _PLAIN and field.attribute in ItemSpec.__struct_fields__
        ],
        bases=(Item,),
        namespace={"__doc__": "A work item."},
        kw_only=True,
    ),
)
"""A work item with all that callers say of it: what lines are read into, and written from."""


class Note(_Line, kw_only=True, tag="note"):
    """A note of an item."""

    id: Uuid
    item_id: Uuid
    key: Annotated[str, Meta(min_length=1, max_length=200)]
    role: Phase
    body: LongText = ""
    format: Annotated[Literal["json", "text"] | UnsetType, Meta(description="Of a result.")] = UNSET
    created_at: Time
    modified_at: Time
    actor: dict[str, Any] | UnsetType = UNSET
    verification: dict[str, Any] | UnsetType = UNSET


class Dependency(_Line, kw_only=True, tag="dependency"):
    """An edge between two items."""

    id: Uuid
    from_item_id: Uuid
    to_item_id: Uuid
    type: Literal["BLOCKS", "IS_BLOCKED_BY", "RELATES_TO"]
    unblock_at: Literal["queue", "work", "review", "terminal"] | UnsetType = UNSET


class Transition(_Line, kw_only=True, tag="transition"):
    """A role change."""

    id: Entry
    item_id: Uuid
    from_role: Role
    to_role: Role
    trigger: str
    from_label: str = ""
    label: str = ""
    summary: str = ""
    actor: dict[str, Any] | UnsetType = UNSET
    verification: dict[str, Any] | UnsetType = UNSET
    previous: Annotated[Entry | UnsetType, Meta(description="The item's transition before.")] = UNSET


class Usage(_Line, kw_only=True, tag="usage"):
    """A sum of usage of the project: of a day, an agent or a model."""

    by: By
    name: Annotated[str, Meta(description="Of a day: 2026-01-31. Empty: of nobody, or no model.")] = ""
    used: UsageSum
    last_day: Annotated[Day | UnsetType, Meta(description="Of an agent: when it reported something last.")] = UNSET
    used_on_last_day: UsageSum | UnsetType = UNSET


class End(_Line, kw_only=True, tag="end"):
    """The last line."""

    lines: Annotated[Count, Meta(description="How many came before.")]


Line = Project | Item | Note | Dependency | Transition | Usage | End
_LINE: Any = Project | ITEM | Note | Dependency | Transition | Usage | End
"""Their types as they are read, in their order."""
_ORDER: dict[type, int] = {kind: n for n, kind in enumerate(get_args(_LINE))}

_decode: Callable[[bytes], Line] = msgspec.json.Decoder(_LINE).decode
encode = msgspec.json.Encoder().encode


def schema() -> dict[str, Any]:
    """The JSON schema of a line."""
    known = msgspec.json.schema(_LINE)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A line of a fleet's project", **known}


def lines(file: BinaryIO) -> Iterator[Line]:
    """The lines of a file, checked against the schema, their order, and what they name; raises BadFile."""
    items, kind, number = set[str](), -1, 0
    while raw := file.readline(MOST_BYTES + 1):
        number += 1
        if len(raw) > MOST_BYTES:
            raise BadFile(f"line {number} has more than {MOST_BYTES} bytes")
        try:
            line = _decode(raw)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadFile(f"line {number}: {error}") from None
        if problem := _problem(line, kind, number, items):
            raise BadFile(f"line {number}: {problem}")
        kind = _ORDER[type(line)]
        yield line
    if kind != _ORDER[End]:
        raise BadFile(f"the file is cut off after line {number}: its end is missing")


def _problem(line: Line, before: int, number: int, items: set[str]) -> str:
    """What is wrong with a line after one of the kind ``before``; empty: nothing."""
    kind = _ORDER[type(line)]
    if before == -1 and kind != 0:
        return "the first line must be the project"
    if kind < before or (before != -1 and kind == 0) or before == _ORDER[End]:
        return f"a {type(line).__name__.lower()} cannot come here"
    if isinstance(line, Project) and not 1 <= line.version <= VERSION:
        return f"version {line.version} of the format is not known; this release reads 1 to {VERSION}"
    if isinstance(line, Item):
        if line.id in items:
            return f"the item {line.id} came before"
        if line.parent_id is not UNSET and line.parent_id not in items:
            return f"the parent {line.parent_id} did not come before"
        items.add(line.id)
    named = {
        Note: ("item_id",),
        Transition: ("item_id",),
        Dependency: ("from_item_id", "to_item_id"),
    }.get(type(line), ())
    for name in named:
        if getattr(line, name) not in items:
            return f"there is no item {getattr(line, name)}"
    if isinstance(line, End) and line.lines != number - 1:
        return f"{line.lines} lines should come before, not {number - 1}: some are missing"
    return ""


def ended(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, and an end after them."""
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 (counted)
        yield line
    yield End(lines=number)
