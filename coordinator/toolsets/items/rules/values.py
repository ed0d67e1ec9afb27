"""Checks the values of an item's fields against their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.toolsets.items.field_types.base import ROLES
from coordinator.toolsets.items.fields import MAX_TAGS, MAX_TITLE, MAX_TYPE
from coordinator.toolsets.items.rules import json_text
from coordinator.toolsets.items.rules.roles import PRIORITY_CODES, PRIORITY_NAMES, ROLE_CODES, one_of

MAX_NOTE_KEY = 200
MAX_TEXT = 500_000
"""Bytes of a long text. Limited because the store's time for a text grows with its length."""
MAX_TAGS_ASKED = 20
"""The most tags of a search or a selector."""
MAX_TRAITS = 32
MAX_NAME = 100
"""Characters of a tag or of a trait's name."""
TAG = re.compile(r"[a-z0-9][a-z0-9_.:/-]*")
TAG_SYNTAX = "lower-case letters, digits, '-', '_', '.', ':' and '/', and begin with a letter or digit"
_BLANK = re.compile(r"[^\S \t\n\v\f\r]")
"""White space outside ASCII, which patterns of Lua do not recognize."""


def given(value: Any) -> Any:
    """The value; None if it is absent."""
    return None if value is UNSET else value


def title(value: Any, field: str = "title") -> str:
    """The title. Raises ToolFailure VALIDATION_ERROR unless it has 1 to 500 characters and is not blank."""
    text = given(value)
    if text is None or not text.strip():
        raise invalid(field, "is required and must not be blank")
    if len(text) > MAX_TITLE:
        raise invalid(field, f"must be at most {MAX_TITLE} characters, not {len(text)}")
    return cast("str", text)


def bounded(value: Any, field: str, most: int) -> str:
    """A text, '' for a blank one and none. Raises ToolFailure VALIDATION_ERROR over ``most`` characters."""
    text = not_blank(value)
    if len(text) > most:
        raise invalid(field, f"must be at most {most} characters, not {len(text)}")
    return text


def tags(value: Any, field: str = "tags", most: int = MAX_TAGS) -> str:
    """The tags as given, '' for none. White space outside ASCII becomes spaces, so that scripts can split the tags.

    Tags are limited because each one is an entry in the index.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed tag, or too many or too long ones.
    """
    text = given(value)
    if text is None or not text.strip():
        return ""
    names = _listed(text)
    if len(names) > most or len(text) > (most + 1) * (MAX_NAME + 2):
        raise invalid(field, f"must be at most {most} tags")
    for tag in names:
        if not TAG.fullmatch(tag):
            raise invalid(field, f"'{tag[:64]}' must be {TAG_SYNTAX}")
        if len(tag) > MAX_NAME:
            raise invalid(field, f"'{tag[:64]}...' must be at most {MAX_NAME} characters")
    return _BLANK.sub(" ", text)


def capabilities(names: Sequence[str], field: str) -> list[str]:
    """Capabilities in order, each once. Their limits are those of tags.

    Raises:
        ToolFailure: VALIDATION_ERROR naming a malformed one, or if there are too many.
    """
    if len(names) > MAX_TAGS:
        raise invalid(field, f"must be at most {MAX_TAGS} capabilities")
    for number, name in enumerate(names):
        if not TAG.fullmatch(name):
            raise invalid(f"{field}[{number}]", f"'{name[:64]}' must be {TAG_SYNTAX}")
        if len(name) > MAX_NAME:
            raise invalid(f"{field}[{number}]", f"'{name[:64]}...' must be at most {MAX_NAME} characters")
    return sorted(set(names))


def type_name(value: Any, field: str = "type") -> str:
    """The type, '' for none. Raises ToolFailure VALIDATION_ERROR over 200 characters."""
    text = not_blank(value)
    if len(text) > MAX_TYPE:
        raise invalid(field, f"must be at most {MAX_TYPE} characters")
    return text


def count(value: int, field: str, least: int, most: int) -> int:
    """The number. Raises ToolFailure VALIDATION_ERROR unless it is within these bounds."""
    if not least <= value <= most:
        raise invalid(field, f"must be {least} to {most:,} or null, not {value}")
    return value


def priority(value: Any, field: str = "priority") -> int:
    """The priority's code. Raises ToolFailure VALIDATION_ERROR for any other."""
    return PRIORITY_CODES[one_of(not_blank(value) or "medium", PRIORITY_NAMES, field)]


def role(value: Any) -> int:
    """The role's code. Raises ToolFailure VALIDATION_ERROR for any other."""
    return ROLE_CODES[one_of(not_blank(value) or "queue", ROLES, "role")]


def not_blank(value: Any) -> str:
    """The text; '' if it is blank or absent."""
    text: str | None = given(value)
    return text if text and text.strip() else ""


def short_text(text: str, field: str, most: int) -> str:
    """The text. Raises ToolFailure VALIDATION_ERROR unless it has 1 to ``most`` characters and is not blank."""
    if not text.strip() or len(text) > most:
        raise invalid(field, f"must be 1 to {most} characters, not blank")
    return text


def long_text(value: Any, field: str) -> str:
    """A description, metadata, properties or the body of a note; '' if it is blank or absent.

    Raises:
        ToolFailure: VALIDATION_ERROR over 500,000 bytes.
    """
    text = not_blank(value)
    if size(text) > MAX_TEXT:
        raise invalid(field, f"must be at most {MAX_TEXT:,} bytes, not {size(text):,}")
    return text


def size(text: str) -> int:
    """The bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list: trimmed, without empty and repeated ones."""
    return list(dict.fromkeys(_listed(text)))


def _listed(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def traits(names: list[str], field: str = "traits") -> str:
    """The stored form of traits. Raises ToolFailure VALIDATION_ERROR for too many or too long ones."""
    if len(names) > MAX_TRAITS or any(len(name) > MAX_NAME for name in names):
        raise invalid(field, f"must be at most {MAX_TRAITS} traits of at most {MAX_NAME} characters")
    return ",".join(names)


def properties(value: Any) -> tuple[str, list[str] | None]:
    """The properties as given, '' for none, and the traits in them; None: no member ``traits``.

    Raises:
        ToolFailure: VALIDATION_ERROR: it is no JSON object, or its traits are no list of names.
    """
    text = long_text(value, "properties")
    if not text:
        return "", None
    if problem := json_text.problem(text):
        raise invalid("properties", problem)
    members = json_text.members(text)
    if members is None:
        raise invalid("properties", "must be a JSON object as a string")
    if "traits" not in members:
        return text, None
    try:
        named = msgspec.json.decode(members["traits"], type=str | list[str] | None)
    except msgspec.DecodeError:
        raise invalid("properties.traits", "must be a list of names, or names with commas between them") from None
    return text, _trait_names(named)


def metadata(value: Any, field: str = "metadata") -> str:
    """The metadata as given, '' for none. They are free text, but what begins with ``{`` or ``[`` must be JSON.

    Raises:
        ToolFailure: VALIDATION_ERROR: over 500,000 bytes, or an object or array that is no JSON.
    """
    text = long_text(value, field)
    if text.lstrip()[:1] in ("{", "[") and (problem := json_text.problem(text)):
        raise invalid(field, f"{problem} (text that begins with {{ or [ must be JSON)")
    return text


def _trait_names(named: str | list[str] | None) -> list[str]:
    return names_in(named if isinstance(named, str) else ",".join(named or ()))


def with_traits(text: str | None, names: list[str]) -> str | None:
    """The properties as results show them: as given, digit for digit, with the item's traits in them.

    Args:
        text: the stored properties; None for none.
    """
    members = json_text.members(text) if text else {}
    if members is None:
        return text
    stated = members.pop("traits", None)
    found = _trait_names(msgspec.json.decode(stated, type=str | list[str] | None)) if stated is not None else []
    if found == names:
        return text
    if names:
        members["traits"] = msgspec.Raw(msgspec.json.encode(names))
    return msgspec.json.encode(members).decode()
