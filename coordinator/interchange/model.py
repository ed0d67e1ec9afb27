"""Records: items of another tracker, in a neutral form."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from msgspec import Struct, field

State = Literal["queue", "in-progress", "blocked", "done", "cancelled", "skip"]
"""What a status means here. ``in-progress``: offered, with a label: nobody here works on it. ``skip``: no item."""
STATES: tuple[State, ...] = ("queue", "in-progress", "blocked", "done", "cancelled", "skip")


_SHOWN = 80


class ImportProblem(Exception):
    """The source cannot be read, or says something that must be decided first: a sentence for whoever imports."""


class SourceRecord(Struct):
    """An item of another tracker."""

    id: str
    """Its identity there: the same in the next import."""
    title: str
    description: str = ""
    summary: str = ""
    status: str = ""
    """As the source has it; empty: it has none."""
    state: State | None = None
    """What the status means; None: the mapping says it."""
    priority: str = ""
    """As the source has it."""
    complexity: float | None = None
    type: str = ""
    container: bool = False
    """Whether it is there for structure alone: nobody is offered it."""
    tags: list[str] = field(default_factory=list)
    parent: str | None = None
    blockers: list[str] = field(default_factory=list)
    """Ids of what it waits for."""
    related: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """Key -> text."""
    url: str = ""
    updated: str = ""
    """When it was changed last, if the source says it (ISO 8601)."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields as ``manage_items`` takes them: those that marks of tasks name."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What has no place here, as the source has it: kept in the item's properties."""


class ImportSource(Struct):
    records: list[SourceRecord] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    """What is not imported -> in how many records."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Kind of what has no item -> the title of each."""
    remarks: list[str] = field(default_factory=list)
    """Sentences about what was changed or left out."""

    def leave_out(self, kind: str, title: str) -> None:
        self.left_out.setdefault(kind, []).append(title)

    def losses(self) -> list[str]:
        named = [f"{len(titles)} x {kind}: {', '.join(titles)}" for kind, titles in self.left_out.items()]
        return named + [f"{count} x {what}" for what, count in self.lost.most_common() if count]


def label_of(title: str, id: str) -> str:
    """How messages name an item of a source: ids of some say nothing to people."""
    return f"{title if len(title) <= _SHOWN else title[:_SHOWN] + '…'} ({id})" if title and title != id else id


def text_of(value: Any) -> str:
    """A scalar as text; empty for anything else. Sources of all kinds have numbers where text is meant."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return str(value)


def texts_of(value: Any) -> list[str]:
    """A list of scalars as texts; a single text is one of them."""
    if isinstance(value, str):
        return [value] if value else []
    return [text for entry in value if (text := text_of(entry))] if isinstance(value, list) else []


def sections(*parts: tuple[str, str]) -> str:
    """One text of several, each but the first below its heading; blank ones are left out."""
    written = [(title, text.strip("\n")) for title, text in parts if text.strip()]
    return "\n\n".join(text if not title else f"## {title}\n\n{text}" for title, text in written)
