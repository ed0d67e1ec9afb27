"""``fleet config check``: lists what is wrong with a config file, or explains what it means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter

from coordinator.cli.config import authentication
from coordinator.doctor import actors
from coordinator.processes.sound import sound
from coordinator.settings import LoadedSettings, Settings, config_version, load_settings
from coordinator.settings.effective_auth import auth_mode
from coordinator.settings.fields import fields_of
from coordinator.settings.redact import shown_value
from coordinator.settings.sections.work import NoteSettings
from coordinator.toolsets.items import (
    DEFAULT_NAME,
    PHASES,
    TAG,
    TAG_SYNTAX,
    TRIGGERS,
    Schema,
    SchemaConfig,
    labels,
    schema_config,
)
from coordinator.units import demands_text
from coordinator.wording import counted

_LABELLED = (*TRIGGERS, "cascade")
"""The triggers that can have a status label."""
_LIFECYCLES = {
    "auto": "ends when the last of its children has ended",
    "manual": "ends only by a transition of its own, even if all its children have ended",
    "permanent": "never ends by itself: a permanent container",
    "auto-reopen": "ends when the last of its children has ended, and reopens when it gets a new one",
}


def check(file: Annotated[Path, Parameter(help="The config file to look at.", metavar="FILE")]) -> None:
    # The file alone, without flags and environment.
    loaded = sound(load_settings({}, {}, file))
    print("\n".join(explained(loaded)))


def explained(loaded: LoadedSettings) -> Iterator[str]:
    settings = loaded.settings
    config = schema_config(settings)
    yield f"{loaded.config} is sound. Version of what a reload can change: {config_version(settings)}"
    yield from _part("Settings", _plain(loaded))
    yield from _part("Connections", _connections(settings))
    yield from _part("Webhooks", _webhooks(settings))
    yield from _part("Gateway", _gateway(settings))
    yield from _part("Schemas", _schemas(settings, config))
    yield from _part("Traits", _traits(config))
    yield from _part("Status labels", _labels(settings))
    yield from _part("Actors", actors.explained(settings.actor_authentication))
    yield from _part("Authentication", authentication.callers(settings))
    yield from _part("Notices", _notices(loaded, config))


def _part(title: str, lines: Iterator[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield ""
        yield title
        yield from (f"  {line}" if line else "" for line in listed)


def _plain(loaded: LoadedSettings) -> Iterator[str]:
    for field in fields_of(Settings):
        source = loaded.sources[field.name]
        if field.example or source == "default":
            continue
        text = msgspec.json.encode(shown_value(field.value_in(loaded.settings), field.type)).decode()
        yield f"{field.name} = {text}  (line {source.rpartition(':')[2]})"


def _connections(settings: Settings) -> Iterator[str]:
    connections = settings.connections or {}
    for name, own in connections.items():
        where = f", in {own.working_directory}" if own.working_directory else ""
        # URLs and arguments may hold secrets.
        yield f"{name}: {own.kind}, " + ("over HTTP" if own.url or own.base_url else f"program {own.command}{where}")
    if any(each.kind == "mcp" for each in connections.values()):
        yield "`fleet flows tools` asks those of kind mcp for their tools"


def _webhooks(settings: Settings) -> Iterator[str]:
    for name, webhook in (settings.webhooks or {}).items():
        what = ", ".join(webhook.kinds) or "all kinds but those that have to be named"
        where = f", only below {', '.join(webhook.root)}" if webhook.root else ""
        secret = f"; the secret is in the variable {webhook.secret_env}" if webhook.secret_env else ""
        # Paths of URLs may hold secrets.
        yield f"{name}: to {urlsplit(webhook.url).netloc}, project {webhook.project}: {what}{where}{secret}"


def _gateway(settings: Settings) -> Iterator[str]:
    gateway = settings.gateway
    if gateway is not None:
        yield (
            f"{counted(len(gateway.workflows), 'workflow')}, "
            f"{counted(len(gateway.capabilities), 'capability', 'capabilities')}, "
            f"{counted(len(gateway.proxy.imports), 'server')} to import from; "
            "`fleet gateway check` lists warnings"
        )


def _schemas(settings: Settings, config: SchemaConfig) -> Iterator[str]:
    if not config.schemas:
        yield "none: items need no notes, and start takes them from work to terminal"
        return
    section = "note_schemas" if settings.work_item_schemas is None else "work_item_schemas"
    last = f"else {config.default!r}" if config.default else "else it has none and needs no notes"
    yield f"({section}) An item has the schema that its type names, else the first that one of its tags names, {last}."
    for name, schema in config.schemas.items():
        yield ""
        mark = ", the default" if name == config.default else ""
        yield f"{name}{mark}: lifecycle {schema.lifecycle}, {_LIFECYCLES[schema.lifecycle]}"
        needed = list(_needed(schema, config))
        for phase in PHASES:
            here = [_note(note, trait) for note, trait in needed if note.role == phase]
            if here or phase != "review":
                yield f"  {phase:<7} {', '.join(here) or 'no notes'}"
        if all(note.role != "review" for note, _ in needed):
            yield "  (no review: start takes its items from work to terminal)"
        if schema.resources:
            yield f"  takes   {demands_text(map(msgspec.to_builtins, schema.resources))}"


def _needed(schema: Schema, config: SchemaConfig) -> Iterator[tuple[NoteSettings, str]]:
    """The notes of all items of a schema, each with its trait ('': it comes from the schema itself)."""
    seen = set()
    sources = [(schema.notes, ""), *((config.traits[trait], trait) for trait in schema.default_traits)]
    for notes, trait in sources:
        for note in notes:
            if note.key not in seen:
                seen.add(note.key)
                yield note, trait


def _note(note: NoteSettings, trait: str = "") -> str:
    facts = ["required"] if note.required else []
    if trait:
        facts.append(f"by trait {trait}")
    return f"{note.key} ({', '.join(facts)})" if facts else note.key


def _traits(config: SchemaConfig) -> Iterator[str]:
    for name, notes in config.traits.items():
        users = [schema for schema, stated in config.schemas.items() if name in stated.default_traits]
        whose = f"all items of {', '.join(users)} and others" if users else "items"
        listed = ", ".join(f"{note.role} {_note(note)}" for note in notes) or "no notes"
        taken = demands_text(map(msgspec.to_builtins, config.resources.traits.get(name, ())))
        yield f"{name}, for {whose} that name it: {listed}{f'; takes {taken}' if taken else ''}"


def _labels(settings: Settings) -> Iterator[str]:
    stated = labels(settings)
    if settings.status_labels is None:
        yield "(built-in)"
    for trigger in _LABELLED:
        if trigger in stated:
            yield f"{trigger:<9} {stated[trigger]}{' (always)' if trigger == 'cancel' else ''}"
    without = [trigger for trigger in _LABELLED if trigger not in stated]
    if without:
        yield f"none for {', '.join(without)}; block and hold then keep the present one, others clear it"


def _notices(loaded: LoadedSettings, config: SchemaConfig) -> Iterator[str]:
    settings = loaded.settings
    if settings.work_item_schemas is not None and settings.note_schemas is not None:
        line = loaded.lines[("note_schemas",)]
        yield f"note_schemas (line {line}) is ignored as a whole, because work_item_schemas is there"
    if settings.default is None and config.default == DEFAULT_NAME:
        yield f"the schema {DEFAULT_NAME!r} is the default by its name; the setting 'default' could name another"
    if config.traits and not config.schemas:
        yield "notes of traits have no effect: they add to schemas, and there are none"
    for name, schema in config.schemas.items():
        yield from _schema_notices(name, schema, config)
    for trait, notes in config.traits.items():
        if not notes:
            if trait not in config.resources.traits:
                yield f"the trait {trait!r} has neither notes nor resources, so it does nothing"
        elif config.schemas and all(trait not in schema.default_traits for schema in config.schemas.values()):
            yield f"no schema has the trait {trait!r} by default; it counts for items that name it"
    yield from actors.notices(settings.actor_authentication, callers=auth_mode(settings) != "none")
    yield from authentication.notices(settings)


def _schema_notices(name: str, schema: Schema, config: SchemaConfig) -> Iterator[str]:
    if not TAG.fullmatch(name):
        yield f"only a type can select the schema {name!r}: tags are {TAG_SYNTAX}"
    own = {note.key for note in schema.notes}
    for trait in schema.default_traits:
        for note in config.traits[trait]:
            if note.key in own:
                yield f"the note {note.key!r} of the trait {trait!r} does not count in {name!r}, which has its own"
        own.update(note.key for note in config.traits[trait])
