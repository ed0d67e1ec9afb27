"""Makes this toolset's configuration from the settings: schemas, traits, labels, and whether actors are required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from coordinator.settings import Settings
from coordinator.settings.sections.resources import limit_of
from coordinator.settings.sections.work import CANCELLED
from coordinator.toolsets.items.rules.resources import ResourceConfig
from coordinator.toolsets.items.rules.roles import DEFAULT_LABELS
from coordinator.toolsets.items.rules.schema import Lifecycle, Schema, SchemaConfig

DEFAULT_NAME = "default"
"""A schema of this name is the default, unless the settings name another."""


def schema_config(settings: Settings) -> SchemaConfig:
    """The configuration from valid settings."""
    schemas = _schemas(settings)
    return SchemaConfig(
        schemas=schemas,
        traits={name: trait.notes for name, trait in (settings.traits or {}).items()},
        default=settings.default or (DEFAULT_NAME if DEFAULT_NAME in schemas else None),
        labels=labels(settings),
        require_actor=settings.actor_authentication.enabled,
        attempts=settings.attempts,
        by_due=settings.rank == "due",
        resources=ResourceConfig(
            limits={key: limit_of(stated) for key, stated in (settings.resources or {}).items()},
            traits={name: trait.resources for name, trait in (settings.traits or {}).items() if trait.resources},
        ),
        budgets=settings.budgets,
    )


def labels(settings: Settings) -> Mapping[str, str]:
    """Status labels by trigger. Those in the settings replace all built-in labels but that of cancel."""
    if settings.status_labels is None:
        return DEFAULT_LABELS
    stated: dict[str, str] = {trigger: label for trigger, label in settings.status_labels.items() if label is not None}
    return {**stated, "cancel": CANCELLED}


def _schemas(settings: Settings) -> dict[str, Schema]:
    everywhere = settings.default_traits or ()
    if settings.work_item_schemas is None:
        return {
            tag: Schema(notes=notes, default_traits=everywhere) for tag, notes in (settings.note_schemas or {}).items()
        }
    return {
        name: Schema(
            notes=stated.notes,
            lifecycle=cast("Lifecycle", stated.lifecycle.lower().replace("_", "-")),
            default_traits=tuple(dict.fromkeys((*stated.default_traits, *everywhere))),
            max_attempts=stated.max_attempts,
            resources=stated.resources,
        )
        for name, stated in settings.work_item_schemas.items()
    }
