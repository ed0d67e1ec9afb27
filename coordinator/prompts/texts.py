"""Reads the texts, and writes them for one front-end and caller."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

IDENTIFIED = "identified"
"""Holds in texts for callers with a credential."""

_MARK = re.compile(r"<!-- (?:(end)|if (not )?([a-z]+)) -->\Z")
_FOLDER = Path(__file__).parent


class Argument(NamedTuple):
    """An argument that a prompt may take; its name is also that of what completes it."""

    name: str
    description: str
    form: re.Pattern[str]
    """What a value must match."""
    allowed: str
    """The same in words."""
    required: bool = False


ARGUMENTS = {
    one.name: one
    for one in (
        Argument(
            "item",
            "Id of a work item, or the first 4 digits or more of it. Without it: whatever is to be done.",
            re.compile(r"(?=.{4,36}\Z)[0-9a-fA-F]{4,8}(?:-?[0-9a-fA-F]+)*-?"),
            "an item's UUID, or at least its first 4 digits",
        ),
        Argument("flow", "Id of a workflow. Without it: all.", re.compile(r"[0-9]{1,19}"), "the id of a workflow"),
        Argument(
            "procedure",
            "Id of the guided procedure.",
            re.compile(r"[^\s`<>{}]{1,200}"),
            "the id of a guided procedure",
            required=True,
        ),
    )
}


class Prompt(NamedTuple):
    """A text, and for whom it is."""

    name: str
    toolsets: frozenset[str]
    """It is offered where one of these is served."""
    arguments: Mapping[str, str]
    """The arguments that it takes: name -> the toolset that has to be served for it, or '' if it is always taken."""
    without_items: str = ""
    """Another text, for where items is not served: of the same title and description."""

    @property
    def title(self) -> str:
        """A few words for people."""
        return _read(self.name).head["title"]

    @property
    def description(self) -> str:
        """A sentence for people who choose."""
        return _read(self.name).head["description"]

    def taken(self, served: Collection[str]) -> list[Argument]:
        """The arguments that it takes where these toolsets are served."""
        return [ARGUMENTS[name] for name, toolset in self.arguments.items() if not toolset or toolset in served]

    def text(self, holding: Collection[str], values: Mapping[str, str], names: Mapping[str, str]) -> str:
        """The text for one caller.

        Args:
            holding: what holds: names of toolsets, and ``IDENTIFIED``.
            values: the arguments given.
            names: tools with other names than in the texts -> these names.
        """
        true, kept, open_parts = {*holding, *values}, list[str](), [True]
        other = self.without_items if "items" not in holding else ""
        for line in _read(other or self.name).lines:
            mark = _MARK.match(line)
            if mark is None:
                if open_parts[-1]:
                    kept.append(line)
            elif mark[1]:
                open_parts.pop()
            else:
                open_parts.append(open_parts[-1] and (mark[3] in true) != bool(mark[2]))
        text = "\n".join(kept)
        for name, value in values.items():
            text = text.replace("{{" + name + "}}", value)
        for tool, name in names.items():
            text = re.sub(rf"(?<=`){re.escape(tool)}(?=[`\n])", name, text)
        return text


PROMPTS = {
    one.name: one
    for one in (
        Prompt("work", frozenset(("items", "worker")), {"item": "items"}, without_items="worker"),
        Prompt("orchestrate", frozenset(("items", "flows")), {"item": "items", "flow": "flows"}),
        Prompt("review", frozenset(("items", "flows", "gateway")), {"item": "items", "flow": "flows"}),
        Prompt("procedure", frozenset(("navigator", "sessions")), {"procedure": ""}),
    )
}
"""All of them, in the order in which they are listed."""


def instructions(name: str) -> str:
    """The short form of a text, for the MCP ``instructions`` of a server."""
    return _read(name).head["instructions"]


class _Text(NamedTuple):
    head: dict[str, str]
    lines: list[str]


@lru_cache
def _read(name: str) -> _Text:
    _, head, body = (_FOLDER / f"{name}.md").read_text(encoding="utf-8").split("---\n", 2)
    pairs = (line.partition(": ") for line in head.splitlines())
    return _Text({key: value for key, _, value in pairs}, body.splitlines())
