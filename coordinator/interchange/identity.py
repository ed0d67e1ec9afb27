"""How an item that was imported is found again: two tags, and what its properties say about its source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.interchange.mapping import tag
from coordinator.interchange.model import SourceRecord

_DIGITS = 16
_SEEN_DIGITS = 8
IDENTITY = re.compile(r"x-[0-9a-f]{16}")
"""A tag by which an item is found again: that of an import, or of the plan whose root it is."""
HOLD = "import-unfinished"
"""A capability that no agent has: an item requires it until its dependencies and notes are there, too."""
FIELDS = (
    *("title", "description", "summary", "priority", "complexity", "type", "container", "tags", "parent", "state"),
    *("blockers", "related", "notes", "url", "fields", "extra"),
)


def source_tag(source: str) -> str:
    return f"import-{tag(source)}"[:100]


def item_tag(source: str, id: str) -> str:
    """The tag of one item: tags are what items are looked up by."""
    name = f"{source}\x00{id}".encode(errors="replace")
    return f"x-{hashlib.sha256(name).hexdigest()[:_DIGITS]}"


def seen_of(record: SourceRecord) -> dict[str, str]:
    """A digest of each field that is not empty, as the source has it."""
    seen = {}
    for name in FIELDS:
        value = getattr(record, name)
        if value:
            digest = hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
            seen[name] = digest[:_SEEN_DIGITS]
    return seen


def external(properties: Mapping[str, Any], record: SourceRecord, source: str, *, finished: bool) -> dict[str, Any]:
    """The properties of an item with what they say about a source, in ``external``, by its name.

    Args:
        properties: as they were.
        finished: whether the item has all that the record has; until then the next import looks at it again.
    """
    facts: dict[str, Any] = {"id": record.id}
    for name in ("url", "tags", "blockers", "related", "fields", "extra"):
        if value := getattr(record, name):
            facts[name] = value
    if finished:
        facts["seen"] = seen_of(record)
    others = properties.get("external")
    kept = {name: value for name, value in properties.items() if name != "traits"}  # traits have a field of their own
    return {**kept, "external": {**(others if isinstance(others, dict) else {}), source: facts}}


def sources_of(properties: Mapping[str, Any]) -> list[str]:
    sources = properties.get("external")
    return list(sources) if isinstance(sources, dict) else []


def external_of(properties: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """What the properties of an item say about a source; empty: nothing."""
    sources = properties.get("external")
    sources = sources.get(source) if isinstance(sources, dict) else None
    return sources if isinstance(sources, dict) else {}


class Known(msgspec.Struct):
    """An item that is here already."""

    id: str
    role: str
    tags: list[str]
    properties: dict[str, Any]
    title: str
    external: Mapping[str, Any]
    """What its properties say about the source; empty: it was not imported from there."""
    claimed: bool = False

    @property
    def seen(self) -> Mapping[str, str] | None:
        """The digests of the last import; None: it did not finish."""
        record = self.external.get("seen")
        return record if isinstance(record, dict) else None

    @property
    def fields(self) -> Mapping[str, Any]:
        """Further fields as the source had them at the last import."""
        fields = self.external.get("fields")
        return fields if isinstance(fields, dict) else {}

    def before(self, name: str) -> list[str]:
        """Tags or links as the source had them at the last import."""
        texts = self.external.get(name)
        return [str(text) for text in texts] if isinstance(texts, list) else []
