"""Turns the data of a file into the struct of its kind. If the data does not fit, says where and why."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

import msgspec

from coordinator.definitions.model import Activity, Rules, Skill, Workflow

T = TypeVar("T")
# msgspec inspects a struct when it first decodes one, and crashes if two threads do that at once. While this module is
# imported there is only one thread, so the structs are inspected here.
_KNOWN = [msgspec.json.Decoder(one) for one in (Workflow, Activity, Skill, Rules)]
Head = Workflow | Activity | Skill | Rules

_TYPES: dict[str, type[Head]] = {"workflow": Workflow, "activity": Activity, "skill": Skill, "rules": Rules}
_PLACED = re.compile(r"^(?P<problem>.*?)(?: - at (?:key in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<front>(?:.*?\n)?)---[ \t]*(?:\r?\n|\Z)(?P<body>.*)\Z", re.DOTALL)
_LINE = re.compile(r"^(?P<key>id|version):(?P<value>.*)$", re.MULTILINE)


class Misfit(Exception):
    """Data does not fit the struct of its kind. The text names the place and what is expected there."""


class Front(NamedTuple):
    """The front matter of a resource or template, and its body."""

    id: str | None
    version: str | None
    body: str
    """The text without front matter and surrounding blank lines; the whole text if there is no front matter."""


def head(kind: str, data: Any) -> Head | None:
    """Converts the data of a file of this kind. Returns None for kinds without a struct (resources, templates).

    Raises:
        Misfit: a field is missing or has a wrong value.
    """
    wanted = _TYPES.get(kind)
    return None if wanted is None else convert(data, wanted)


def convert(data: Any, wanted: type[T]) -> T:
    """Converts data to a struct. Unknown fields are dropped.

    Raises:
        Misfit: a field is missing or has a wrong value.
    """
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        placed = _PLACED.match(str(error))
        if placed is None or not placed["path"]:
            raise Misfit(str(error)) from None
        raise Misfit(f"{placed['path']}: {placed['problem'][:1].lower()}{placed['problem'][1:]}") from None
    except RecursionError:
        raise Misfit("nested too deeply") from None


def front_matter(text: str) -> Front:
    """Separates the front matter of a Markdown text from its body, if it has front matter that is closed."""
    match = _FRONT.match(text.removeprefix("\ufeff"))
    if match is None:
        return Front(None, None, text)
    entries = {line["key"]: line["value"].strip(" \t\r").strip("\"'") for line in _LINE.finditer(match["front"])}
    return Front(entries.get("id") or None, entries.get("version") or None, match["body"].strip())


def toon_front(data: Any, text: str) -> Front:
    """The id and version in a TOON resource. The body is the whole text."""
    entries = data if isinstance(data, dict) else {}
    identity, version = entries.get("id"), entries.get("version")
    return Front(None if identity is None else str(identity), None if version is None else str(version), text)
