"""From the settings to what this toolset goes by: schemas, traits, labels, and who must sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.settings import Settings
from coordinator.settings.work import CANCELLED, NoteSettings
from coordinator.toolsets.items.rules.roles import DEFAULT_LABELS
from coordinator.toolsets.items.rules.schema import Lifecycle, NoteSpec, Schema, SchemaConfig

DEFAULT_NAME = "default"
"""A schema of this name is the default where the settings name none."""
_LIFECYCLES: Mapping[str, Lifecycle] = {
    "auto": "auto",
    "manual": "manual",
    "permanent": "permanent",
    "auto-reopen": "auto-reopen",
}


def schema_config(settings: Settings) -> SchemaConfig:
    """One version of the configuration, from settings that were checked."""
    schemas = _schemas(settings)
    return SchemaConfig(
        schemas=schemas,
        traits={name: _notes(trait.notes) for name, trait in (settings.traits or {}).items()},
        default=settings.default or (DEFAULT_NAME if DEFAULT_NAME in schemas else None),
        labels=labels(settings),
        require_actor=settings.actor_authentication.enabled,
    )


def labels(settings: Settings) -> Mapping[str, str]:
    """Status label by trigger (seed 004): a section replaces the built-in labels, but never that of cancel."""
    if settings.status_labels is None:
        return DEFAULT_LABELS
    stated: dict[str, str] = {trigger: label for trigger, label in settings.status_labels.items() if label is not None}
    return {**stated, "cancel": CANCELLED}


def _schemas(settings: Settings) -> dict[str, Schema]:
    if settings.work_item_schemas is None:
        return {tag: Schema(notes=_notes(notes)) for tag, notes in (settings.note_schemas or {}).items()}
    return {
        name: Schema(
            notes=_notes(stated.notes),
            lifecycle=_LIFECYCLES[stated.lifecycle.lower().replace("_", "-")],
            default_traits=stated.default_traits,
        )
        for name, stated in settings.work_item_schemas.items()
    }


def _notes(notes: Sequence[NoteSettings]) -> tuple[NoteSpec, ...]:
    return tuple(
        NoteSpec(note.key, note.role, note.required, note.description, note.guidance, note.skill) for note in notes
    )
