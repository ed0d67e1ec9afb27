"""Ids: UUIDs for callers, 32 hex digits inside (the inner form). Callers may also name items by a hex prefix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from secrets import randbelow
from typing import NamedTuple
from uuid import UUID, uuid4

from coordinator.errors import ToolFailure, invalid

_HEX = re.compile(r"[0-9a-fA-F]+")
_DASHED = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
MIN_PREFIX = 4
FULL = 32
"""The digits of a full id in the inner form."""
LONGEST = 36
"""The characters of a UUID with its dashes, the longest id that a caller may give."""


def new_id() -> str:
    """A random id (UUID version 4) in the inner form."""
    return uuid4().hex


_RANDOM_BITS = 122
_REST_BITS = 62
"""Of the random bits, those after the variant."""
_REST = 0x3FFF_FFFF_FFFF_FFFF


def new_ids(count: int, after: str = "") -> Sequence[str]:
    """Rising random ids for the items of one call.

    Items of one moment are listed in the order of their ids, so those that are made with rising ids keep their order.

    Args:
        after: an id that precedes all of them.
    """
    if not after:
        return sorted(uuid4().hex for _ in range(count))
    first = _random_part(after) + 1
    return [_with_version(part) for part in sorted(first + randbelow(2**_RANDOM_BITS - first) for _ in range(count))]


def _random_part(inner: str) -> int:
    """The random bits of a UUID of version 4, in their order."""
    number = int(inner, 16)
    return (number >> 80) << 74 | ((number >> 64) & 0xFFF) << _REST_BITS | number & _REST


def _with_version(part: int) -> str:
    """The UUID of version 4 that has these random bits."""
    head, middle, rest = part >> 74, (part >> _REST_BITS) & 0xFFF, part & _REST
    return f"{head << 80 | 4 << 76 | middle << 64 | 2 << _REST_BITS | rest:032x}"


def dashed(inner: str) -> str:
    """The UUID as callers see it."""
    return f"{inner[:8]}-{inner[8:12]}-{inner[12:16]}-{inner[16:20]}-{inner[20:]}"


def to_inner(text: str) -> str:
    """An item id in the inner form: 32 digits for a UUID, fewer for a prefix; '' for anything else."""
    if _DASHED.fullmatch(text):
        return text.replace("-", "").lower()
    if MIN_PREFIX <= len(text) <= 32 and _HEX.fullmatch(text):
        return text.lower()
    return ""


def parse(text: str, field: str) -> str:
    """An item id in the inner form.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed id.
    """
    found = to_inner(text)
    if not found:
        raise no_id(field)
    return found


def no_id(field: str) -> ToolFailure:
    """The failure for a malformed item id."""
    return invalid(field, "must be a UUID or a hex prefix of 4 to 32 digits")


def no_such_item(field: str) -> ToolFailure:
    return ToolFailure("RESOURCE_NOT_FOUND", f"{field}: no such item")


def parse_uuid(text: str, field: str) -> str:
    """A full UUID in the inner form, for notes and dependencies.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    if not _DASHED.fullmatch(text):
        raise invalid(field, "must be a UUID")
    return text.replace("-", "").lower()


def is_uuid(text: str) -> bool:
    """Whether a requestId can be used (others are ignored where it is optional)."""
    if _DASHED.fullmatch(text):
        return True
    try:
        UUID(text)
    except ValueError:
        return False
    return True


class Match(NamedTuple):
    """An item that a prefix may match."""

    id: str
    title: str


def pick(prefix: str, matches: list[Match], field: str) -> str:
    """The only item that a prefix matches.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND; VALIDATION_ERROR with up to ten candidates when
            the prefix is ambiguous.
    """
    if not matches:
        raise ToolFailure("RESOURCE_NOT_FOUND", f"{field}: no item's id begins with '{prefix}'")
    if len(matches) > 1:
        found = [{"id": dashed(match.id), "title": match.title} for match in matches]
        raise ToolFailure(
            "VALIDATION_ERROR",
            f"{field}: id prefix '{prefix}' is ambiguous: {len(matches)} items begin with it; give more digits",
            data={"prefix": prefix, "matches": found},
        )
    return matches[0].id
