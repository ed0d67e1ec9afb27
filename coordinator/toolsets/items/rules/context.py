"""get_context: an item's notes compared with its schema."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from coordinator.settings.sections.work import NoteSettings
from coordinator.toolsets.items.contract.context import GateStatus, SchemaNote
from coordinator.toolsets.items.field_types.base import NoteProgress
from coordinator.toolsets.items.rules.dependencies.graph import unsatisfied
from coordinator.toolsets.items.rules.schema import Filled, Resolved, expected, phase


class Standing:
    """An item's notes compared with its schema, in its current role."""

    def __init__(
        self, role: str, schema: Resolved | None, filled: Filled, blockers: Sequence[tuple[str, int, int]] = ()
    ) -> None:
        self._role = role
        self._blockers = blockers
        self._schema = schema
        self._notes = dict(filled.notes)
        self._phase = phase(schema, role, filled.notes) if schema is not None and role != "terminal" else None
        self.missing: list[NoteSettings] = self._phase.missing if self._phase else []
        self.progress: NoteProgress | None = self._phase.progress if self._phase else None

    @property
    def gate(self) -> GateStatus:
        """Whether the item can move forward, and what prevents it: notes, blockers, or its role."""
        return GateStatus(
            can_advance=self._role not in ("terminal", "blocked") and not self.missing and not self._blockers,
            phase=self._role,
            missing=[note.key for note in self.missing],
            blockers=unsatisfied(self._blockers) or UNSET,
        )

    @property
    def guidance(self) -> str | None:
        """The guidance of the first missing note."""
        return self._phase.guidance if self._phase else None

    @property
    def skill(self) -> str | None:
        """The skill for the first missing note."""
        return self._phase.skill if self._phase else None

    def entries(self) -> list[SchemaNote]:
        """Every note of the schema, of all phases."""
        return [self._entry(note) for note in self._schema.notes] if self._schema else []

    def _entry(self, note: NoteSettings) -> SchemaNote:
        base = expected(note, note.key in self._notes)
        return SchemaNote(**msgspec.structs.asdict(base), filled=self._notes.get(note.key, False))
