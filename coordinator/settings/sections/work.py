"""The sections about work items: which notes each type of work needs, and status labels.

The items toolset applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Struct

from coordinator.settings.problems import Faults, KeyPath
from coordinator.settings.sections.attempts import MOST_ATTEMPTS
from coordinator.settings.sections.resources import Demands
from coordinator.settings.setting import setting

CANCELLED = "cancelled"
"""The label of cancelled items, which cannot be changed."""

_MOST_NOTES = 100

Name = Annotated[
    str,
    setting(
        pattern=r"^[^\s,]([^,]{0,198}[^\s,])?\Z",
        allowed="1 to 200 characters without ',' and without blanks around them",
    ),
]
TraitNames = tuple[Name, ...]
Key = Annotated[
    str,
    setting(
        pattern=r"^(?!(?i:question|answer)-\d+\Z)(?s:\S(.{0,198}\S)?)\Z",
        allowed="1 to 200 characters of text without blanks around them, other than question-<number> and "
        "answer-<number>",
    ),
]
Label = Annotated[str, setting(pattern=r"^(?s:\S(.{0,198}\S)?)\Z", allowed="1 to 200 characters of text")]
Lifecycle = Annotated[
    str,
    setting(
        pattern=r"^(?i:auto|manual|permanent|auto[-_]reopen)\Z", allowed="one of auto, manual, permanent, auto-reopen"
    ),
]
Phase = Literal["queue", "work", "review"]
Trigger = Literal["start", "complete", "block", "hold", "resume", "cancel", "reopen", "cascade"]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The base of the structs in this module; fields with their defaults are not printed."""


class NoteSettings(_Section, frozen=True, kw_only=True):
    """A note that a schema or a trait asks for."""

    key: Key
    role: Phase
    required: bool = False
    description: str = ""
    guidance: str | None = None
    skill: str | None = None


Notes = Annotated[
    tuple[NoteSettings, ...],
    setting(
        max_length=_MOST_NOTES,
        allowed=f"a list of at most {_MOST_NOTES} notes, each with key, role and, if need be, required, "
        "description, guidance and skill",
    ),
]


class SchemaSettings(_Section, frozen=True, kw_only=True):
    """One entry of ``work_item_schemas``.

    Raises:
        Faults: a note, a trait or a resource is named twice.
    """

    lifecycle: Lifecycle = "auto"
    default_traits: TraitNames = ()
    max_attempts: Annotated[int, setting(ge=0, le=MOST_ATTEMPTS)] | None = None
    """Instead of ``attempts.max``; 0: any number."""
    resources: Demands = ()
    """What its items demand that do not say so themselves."""
    notes: Notes = ()

    def __post_init__(self) -> None:
        _refuse(
            [
                *repeated((note.key for note in self.notes), ("notes",), "the key"),
                *repeated(self.default_traits, ("default_traits",), "the trait"),
                *repeated((one.key for one in self.resources), ("resources",), "the key"),
            ]
        )


class TraitSettings(_Section, frozen=True, kw_only=True):
    """One entry of ``traits``.

    Raises:
        Faults: a note or a resource is named twice.
    """

    notes: Notes = ()
    resources: Demands = ()

    def __post_init__(self) -> None:
        _refuse(
            [
                *repeated((note.key for note in self.notes), ("notes",), "the key"),
                *repeated((one.key for one in self.resources), ("resources",), "the key"),
            ]
        )


Schemas = dict[Name, SchemaSettings]
LegacySchemas = dict[Name, Notes]
Traits = dict[Name, TraitSettings]
Labels = dict[Trigger, Label | None]


def repeated(names: Iterable[str], path: KeyPath, what: str) -> Iterator[tuple[KeyPath, str]]:
    """Repeated names in a list at ``path``: where, and a sentence about it."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            yield (*path, position), f"{what} {name!r} is there twice; entry {seen[name]} has it too"
        seen.setdefault(name, position)


def _refuse(faults: list[tuple[KeyPath, str]]) -> None:
    if faults:
        raise Faults(faults)
