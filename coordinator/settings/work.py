"""The sections about work items: which notes each type of work needs, and labels.

Here they are as the file states them, checked for themselves; what they mean to the tools
is the items toolset's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from coordinator.settings.problems import Faults, unknown

if TYPE_CHECKING:
    from coordinator.settings.model import Settings

Path = tuple[str | int, ...]

CANCELLED = "cancelled"
"""The one label that cannot be configured away."""

_MOST_NAMES = 1000
_MOST_NOTES = 100

Name = Annotated[
    str,
    Meta(
        pattern=r"^[^\s,]([^,]{0,198}[^\s,])?\Z",
        extra={"allowed": "1 to 200 characters without ',' and without blanks around them"},
    ),
]
Key = Annotated[
    str,
    Meta(
        pattern=r"^(?s:\S(.{0,198}\S)?)\Z", extra={"allowed": "1 to 200 characters of text without blanks around them"}
    ),
]
Label = Annotated[str, Meta(pattern=r"^(?s:\S(.{0,198}\S)?)\Z", extra={"allowed": "1 to 200 characters of text"})]
Lifecycle = Annotated[
    str,
    Meta(
        pattern=r"^(?i:auto|manual|permanent|auto[-_]reopen)\Z",
        extra={"allowed": "one of auto, manual, permanent, auto-reopen"},
    ),
]
Phase = Literal["queue", "work", "review"]
Trigger = Literal["start", "complete", "block", "hold", "resume", "cancel", "reopen", "cascade"]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What all parts of these sections are; printed without what is not said."""


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
    Meta(
        max_length=_MOST_NOTES,
        extra={
            "allowed": f"a list of at most {_MOST_NOTES} notes, each with key, role and, if need be, required, "
            "description, guidance and skill"
        },
    ),
]


class SchemaSettings(_Section, frozen=True, kw_only=True):
    """One entry of ``work_item_schemas``.

    Raises:
        Faults: a note or a trait is named twice.
    """

    lifecycle: Lifecycle = "auto"
    default_traits: tuple[Name, ...] = ()
    notes: Notes = ()

    def __post_init__(self) -> None:
        _refuse(
            [
                *_repeated((note.key for note in self.notes), ("notes",), "the key"),
                *_repeated(self.default_traits, ("default_traits",), "the trait"),
            ]
        )


class TraitSettings(_Section, frozen=True, kw_only=True):
    """One entry of ``traits``.

    Raises:
        Faults: a note is named twice.
    """

    notes: Notes

    def __post_init__(self) -> None:
        _refuse([*_repeated((note.key for note in self.notes), ("notes",), "the key")])


Schemas = dict[Name, SchemaSettings]
LegacySchemas = dict[Name, Notes]
Traits = dict[Name, TraitSettings]
Labels = dict[Trigger, Label | None]


def work_problems(settings: Settings, broken: Collection[str]) -> Iterator[tuple[Path, str]]:
    """What is wrong between these sections: where, and a sentence about it.

    Args:
        broken: sections that are wrong in themselves, about which nothing can be said.
    """
    if not {"traits", "work_item_schemas"} & set(broken):
        for schema, stated in (settings.work_item_schemas or {}).items():
            for position, trait in enumerate(stated.default_traits):
                if trait not in (settings.traits or {}):
                    here: Path = ("work_item_schemas", schema, "default_traits", position)
                    yield here, _named(here, unknown("trait", trait, settings.traits or ()))
    if not {"work_item_schemas", "note_schemas"} & set(broken):
        section = "note_schemas" if settings.work_item_schemas is None else "work_item_schemas"
        schemas = getattr(settings, section) or {}
        if settings.default is not None and settings.default not in schemas:
            yield ("default",), f"default: {unknown(f'schema of {section}', settings.default, schemas)}"
    for tag, notes in (settings.note_schemas or {}).items():
        for at, sentence in _repeated((note.key for note in notes), ("note_schemas", tag), "the key"):
            yield at, _named(at, sentence)
    if (settings.status_labels or {}).get("cancel", CANCELLED) != CANCELLED:
        here = ("status_labels", "cancel")
        yield here, _named(here, f"must be left out or {CANCELLED!r}: cancelled items always have this label")
    for section in ("work_item_schemas", "note_schemas", "traits"):
        if len(getattr(settings, section) or ()) > _MOST_NAMES:
            yield (section,), f"{section} may have at most {_MOST_NAMES} entries"


def _repeated(names: Iterable[str], path: Path, what: str) -> Iterator[tuple[Path, str]]:
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            yield (*path, position), f"{what} {name!r} is there twice; entry {seen[name]} has it too"
        seen.setdefault(name, position)


def _refuse(faults: list[tuple[Path, str]]) -> None:
    if faults:
        raise Faults(faults)


def _named(path: Path, sentence: str) -> str:
    return f"{'.'.join(map(str, path))}: {sentence}"
