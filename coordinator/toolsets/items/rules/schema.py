"""Note schemas (README.md, 'Note schemas and gates'): which notes an item needs, from its type, tags and traits.

A ``SchemaConfig`` is one version of the operator's configuration. Front-ends install it in Redis under its hash, and
operations enforce gates with it (``lua/notes/schemas.lua`` resolves schemas in the same order). Here it is used to
render answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid
from coordinator.settings.sections.attempts import Attempts
from coordinator.settings.sections.budgets import Budgets
from coordinator.settings.sections.resources import Demand
from coordinator.settings.sections.work import NoteSettings
from coordinator.toolsets.items.field_types.base import ExpectedNote, NoteProgress
from coordinator.toolsets.items.rules.resources import ResourceConfig
from coordinator.toolsets.items.rules.roles import DEFAULT_LABELS
from coordinator.toolsets.items.rules.usage.budgets import packed_budgets
from coordinator.toolsets.tool import Call, Handler

Lifecycle = Literal["auto", "manual", "permanent", "auto-reopen"]
_LIFECYCLE_CODES = {"auto": "A", "manual": "M", "permanent": "P", "auto-reopen": "R"}
_pack = msgspec.msgpack.Encoder().encode


class Schema(msgspec.Struct, frozen=True):
    """One entry of ``work_item_schemas``."""

    notes: tuple[NoteSettings, ...] = ()
    lifecycle: Lifecycle = "auto"
    default_traits: tuple[str, ...] = ()
    max_attempts: int | None = None
    """How many attempts its items may have, 0: any number; None: as for all items."""
    resources: tuple[Demand, ...] = ()
    """What its items demand that do not say so themselves."""


class Resolved(NamedTuple):
    """The schema of one item, trait notes merged in."""

    notes: tuple[NoteSettings, ...]
    lifecycle: Lifecycle

    @property
    def has_review(self) -> bool:
        """Whether the item passes through review."""
        return any(note.role == "review" for note in self.notes)


class Filled(NamedTuple):
    """A script's report about an item's notes, with the fields that decide its schema; False: absent."""

    type: str | bool
    tags: str | bool
    traits: str | bool
    notes: list[tuple[str, bool]]


@dataclass(frozen=True)
class SchemaConfig:
    """One version of the configured schemas. With the empty version, no item has a schema."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    traits: Mapping[str, tuple[NoteSettings, ...]] = field(default_factory=dict)
    default: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: DEFAULT_LABELS)
    """Status labels by trigger (and ``cascade``); a trigger that is not in it has no label."""
    require_actor: bool = False
    """Whether transitions and notes without an actor are rejected."""
    attempts: Attempts = field(default_factory=Attempts)
    """What follows when agents fail with an item."""
    by_due: bool = False
    """Whether items rank by when they are due."""
    resources: ResourceConfig = field(default_factory=ResourceConfig)
    """How much there is of what items demand."""
    budgets: Budgets | None = None
    """Those of agents and projects."""

    @cached_property
    def version(self) -> str:
        """A hash of everything that scripts see; '' if no schema is configured."""
        return blake2b(_pack(self.packed()), digest_size=8).hexdigest() if self.schemas else ""

    @cached_property
    def packed_labels(self) -> bytes:
        """The labels as scripts read them (``lua/layout/run.lua``)."""
        escaped = {name: label.replace("%", "%25").replace("\0", "%00") for name, label in self.labels.items()}
        return "".join(f"\0{trigger}={label}" for trigger, label in escaped.items()).encode()

    def terms(self, project: str) -> bytes:
        """The settings that scripts decide by in a project (``lua/layout/terms.lua``)."""
        return self._terms_of.get(project, self._terms)

    @cached_property
    def _terms_of(self) -> dict[str, bytes]:
        """Those of projects with settings of their own."""
        return {project: self._packed(budgets) for project, budgets in packed_budgets(self.budgets)[0].items()}

    @cached_property
    def _terms(self) -> bytes:
        return self._packed(packed_budgets(self.budgets)[1])

    def _packed(self, budgets: object) -> bytes:
        parts: dict[str, object] = {"a": self._attempts}
        demands = {name: (one.resources, one.default_traits) for name, one in self.schemas.items()}
        if resources := self.resources.packed(demands, self.default):
            parts["r"] = resources
        if self.by_due:
            parts["d"] = True
        if budgets:
            parts["b"] = budgets
        return _pack(parts)

    @property
    def _attempts(self) -> tuple[object, ...]:
        """What scripts need to know about attempts (``lua/claims/attempts.lua``)."""
        stated = {name: -1 if one.max_attempts is None else one.max_attempts for name, one in self.schemas.items()}
        by_schema = stated if any(most >= 0 for most in stated.values()) else False
        section = self.attempts
        times = section.backoff_seconds * 1000, section.backoff_cap_seconds * 1000
        return section.max, *times, by_schema, self.default or ""

    def most_attempts(self, type_name: str | bool | None, tags: str | bool | None) -> int:
        """How many attempts an item may have that does not say so itself; 0: any number."""
        name = self._name(_text(type_name), _text(tags))
        own = None if name is None else self.schemas[name].max_attempts
        return self.attempts.max if own is None else own

    def packed(self) -> list[tuple[str, bytes]]:
        """The fields that scripts read, as ``lua/notes/schemas.lua`` describes them."""
        fields = [
            (f"s:{name}", _pack((_LIFECYCLE_CODES[schema.lifecycle], schema.default_traits, _needs(schema.notes))))
            for name, schema in sorted(self.schemas.items())
        ]
        fields += [(f"t:{name}", _pack(_needs(notes))) for name, notes in sorted(self.traits.items())]
        if self.default:
            fields.append(("default", self.default.encode()))
        return fields

    def resolve(self, type_name: str | None, tags: str | None, traits: Sequence[str]) -> Resolved | None:
        """The schema named by the type, else by the first tag that names one, else the default; traits are added."""
        name = self._name(type_name, tags)
        if name is None:
            return None
        base = self.schemas[name]
        notes = {note.key: note for note in base.notes}
        for trait in (*base.default_traits, *traits):
            for note in self.traits.get(trait, ()):
                notes.setdefault(note.key, note)
        return Resolved(tuple(notes.values()), base.lifecycle)

    def _name(self, type_name: str | None, tags: str | None) -> str | None:
        """The name of an item's schema; None: it has none."""
        if type_name in self.schemas:
            return type_name
        named = (tag for part in (tags or "").split(",") if (tag := part.strip()) in self.schemas)
        return next(named, self.default)

    def unknown_trait(self, traits: str, field: str = "traits") -> ToolFailure | None:
        """Why an item cannot have these traits (as stored): one is not configured. If none is, any name is allowed."""
        for name in traits.split(",") if traits and self.traits else ():
            if name not in self.traits:
                close = get_close_matches(name, self.traits, n=1)
                hint = f"did you mean '{close[0]}'? " if close else ""
                return invalid(field, f"'{name}' is no configured trait; {hint}known: {', '.join(sorted(self.traits))}")
        return None

    def resolve_reported(self, item: Filled) -> Resolved | None:
        """The schema of an item from a script's report."""
        if not self.schemas:
            return None
        traits = item.traits.split(",") if isinstance(item.traits, str) else []
        return self.resolve(_text(item.type), _text(item.tags), traits)


class SchemaSource:
    """Holds the active version; a reload replaces it at once for every later call.

    A handler wrapped by ``steady`` uses one version throughout. So its answer matches what its scripts enforced, even
    if there was a reload in between.
    """

    def __init__(self, config: SchemaConfig | None = None) -> None:
        self._latest = config or SchemaConfig()
        self._held: ContextVar[SchemaConfig | None] = ContextVar("schemas", default=None)

    @property
    def current(self) -> SchemaConfig:
        """The version for the current call."""
        return self._held.get() or self._latest

    @current.setter
    def current(self, config: SchemaConfig) -> None:
        self._latest = config

    def steady(self, handler: Handler) -> Handler:
        """The handler, with one version throughout each call."""

        async def run(call: Call, arguments: Any) -> msgspec.Struct:
            self._held.set(self._latest)
            try:
                return await handler(call, arguments)
            finally:
                self._held.set(None)

        return run


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None


def _needs(notes: Sequence[NoteSettings]) -> list[tuple[str, str, bool]]:
    return [(note.key, note.role, note.required) for note in notes]


def expected(note: NoteSettings, exists: bool) -> ExpectedNote:
    """A schema entry as results show it."""
    return ExpectedNote(
        key=note.key,
        role=note.role,
        required=note.required,
        description=note.description,
        exists=exists,
        guidance=note.guidance or UNSET,
        skill=note.skill or UNSET,
    )


class Phase(NamedTuple):
    """The state of the required notes of one phase."""

    progress: NoteProgress
    missing: list[NoteSettings]

    @property
    def guidance(self) -> str | None:
        """The guidance of the first missing note."""
        return self.missing[0].guidance if self.missing else None

    @property
    def skill(self) -> str | None:
        """The skill for the first missing note."""
        return self.missing[0].skill if self.missing else None


def phase(schema: Resolved, role: str, notes: Sequence[tuple[str, bool]]) -> Phase:
    """The state of the required notes of ``role``; blank notes count as missing."""
    filled = {key for key, is_filled in notes if is_filled}
    required = [note for note in schema.notes if note.required and note.role == role]
    missing = [note for note in required if note.key not in filled]
    done = len(required) - len(missing)
    progress = NoteProgress(filled=done, remaining=len(missing), total=len(required))
    return Phase(progress, missing)
