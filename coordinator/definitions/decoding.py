"""Turns the data of a file into the struct of its kind, or says in a sentence where it does not fit."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

import msgspec

from coordinator.definitions.model import Activity, Rules, Skill, Workflow

T = TypeVar("T")
# msgspec takes a struct apart when it first meets it, and crashes where two threads do so at once. Here is only one.
_KNOWN = [msgspec.json.Decoder(one) for one in (Workflow, Activity, Skill, Rules)]
Head = Workflow | Activity | Skill | Rules

_TYPES: dict[str, type[Head]] = {"workflow": Workflow, "activity": Activity, "skill": Skill, "rules": Rules}
_PLACED = re.compile(r"^(?P<problem>.*?)(?: - at (?:key in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<front>(?:.*?\n)?)---[ \t]*(?:\r?\n|\Z)(?P<body>.*)\Z", re.DOTALL)
_LINE = re.compile(r"^(?P<key>id|version):[ \t]*(?P<value>.*?)[ \t]*\r?$", re.MULTILINE)


class Misfit(Exception):
    """Data that is no definition of its kind; the text names the place and what is expected there."""


class Front(NamedTuple):
    """What a resource or template says about itself, and the rest of it."""

    id: str | None
    version: str | None
    body: str
    """Without front matter and the blank lines around; the whole text where there is no front matter."""


def head(kind: str, data: Any) -> Head | None:
    """The struct of a file of this kind; None for kinds that have none (resources, templates).

    Raises:
        Misfit: a field is missing or is not what it should be.
    """
    wanted = _TYPES.get(kind)
    return None if wanted is None else convert(data, wanted)


def convert(data: Any, wanted: type[T]) -> T:
    """The data as a struct; fields that it does not know are dropped.

    Raises:
        Misfit: a field is missing or is not what it should be.
    """
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        found = _PLACED.match(str(error))
        if found is None or not found["path"]:
            raise Misfit(str(error)) from None
        raise Misfit(f"{found['path']}: {found['problem'][:1].lower()}{found['problem'][1:]}") from None
    except RecursionError:
        raise Misfit("nested too deeply") from None


def front_matter(text: str) -> Front:
    """Splits Markdown at its front matter, where it has some that is closed."""
    match = _FRONT.match(text.removeprefix("\ufeff"))
    if match is None:
        return Front(None, None, text)
    said = {line["key"]: line["value"].strip("\"'") for line in _LINE.finditer(match["front"])}
    return Front(said.get("id") or None, said.get("version") or None, match["body"].strip())


def toon_front(data: Any, text: str) -> Front:
    """What a resource in TOON says about itself; all of it is its body."""
    said = data if isinstance(data, dict) else {}
    identity, version = said.get("id"), said.get("version")
    return Front(None if identity is None else str(identity), None if version is None else str(version), text)
