"""Checks the arguments of a search and translates them into ranges of the ranked index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from coordinator.errors import ToolFailure, invalid
from coordinator.store.record_layout import NO_COMPLEXITY, RANK_EPOCH
from coordinator.toolsets.items.contract.query import CLAIM_STATUSES, MAX_LIMIT, SORT_FIELDS, QueryItems
from coordinator.toolsets.items.field_types.base import ROLES
from coordinator.toolsets.items.fields import FIELDS, MAX_TITLE
from coordinator.toolsets.items.rules.classes import OF_ROLE
from coordinator.toolsets.items.rules.kinds import FORMS
from coordinator.toolsets.items.rules.roles import PRIORITY_CODES, PRIORITY_NAMES, one_of
from coordinator.toolsets.items.rules.times.instants import interval
from coordinator.toolsets.items.rules.values import MAX_TAGS_ASKED, names_in, not_blank, tags

DEFAULT_LIMIT = 50
MAX_REACH = 10_000
"""The greatest sum of offset and limit of a search that has to read the items."""
FEW_ROOTS = 50
"""Up to this many roots, an overview can list the children within any deadline."""
_LAST_TIME = 2**41 - 1
_EVER = 2**53
_HELD = "QWRBT"
_SORTS = {"title": "t", "priority": "p", "complexity": "c", "createdat": "a", "modifiedat": "m"}
_SORTS |= {"created": "a", "modified": "m", "dueat": "d"}
_EQUAL = [
    (field.attribute, field.name, field.letter, stored)
    for field in FIELDS
    if field.attribute in QueryItems.__struct_fields__
    and field.name not in ("priority", "tags")
    and (stored := FORMS[field.name].stored)
]
"""Filters that a field equals as it is stored: attribute, name, letter, and what makes the stored form."""


class Span(NamedTuple):
    """Ranges of scores for ``lua/searches/ranges.lua``: the same range of creation times in each of several groups.

    The number of a group is priority * 16 + complexity. Times are in ms since ``RANK_EPOCH``.
    """

    first_group: int
    last_group: int
    created_from: int
    created_to: int


_EVERYTHING = Span(0, 2 * 16 + NO_COMPLEXITY, 0, _LAST_TIME)


class IndexPart(NamedTuple):
    """A part of the ranked index that contains every match, because its scopes are one of the conditions."""

    condition: str
    scopes: list[str]


class Search(NamedTuple):
    """A checked search, for ``search_page.lua`` and ``scan_items.lua``."""

    parts: list[IndexPart]
    classes: str
    span: Span
    conditions: dict[str, Any]
    """By the letters of ``lua/searches/conditions.lua``."""
    sorting: str
    descending: bool
    limit: int
    offset: int
    shown: str
    """What rows show, too: letters of a ancestors, d details."""

    @property
    def indexed(self) -> bool:
        """Whether the index answers it, without reading the items."""
        if self.sorting not in "apc" or len(self.conditions) > 1:
            return False
        part = self.parts[0]
        return len(part.scopes) == 1 and all(name == part.condition for name in self.conditions)

    def packable(self) -> dict[str, Any]:
        """The search for the scripts that read items."""
        packed = {
            "scopes": self.parts,
            "classes": self.classes,
            "span": self.span,
            "conditions": self.conditions,
            "sorting": self.sorting,
            "descending": self.descending,
        }
        if "du" in self.conditions and not set(OF_ROLE["terminal"]) & set(self.classes):
            packed["due"] = self.conditions["du"]
        return packed


def _bounds(after: str | None, before: str | None, name: str) -> tuple[int, int] | None:
    """Both bounds in ms, inclusive; None if neither is given."""
    low, high = interval(after, before, name)
    if low is None and high is None:
        return None
    return -_EVER if low is None else low, _EVER if high is None else high


@cache
def _folding() -> dict[str, list[str]]:
    """A character of folded text -> the characters outside ASCII whose folded form contains it."""
    found: dict[str, list[str]] = {}
    for code in range(0x80, 0x20000):
        folded = chr(code).casefold()
        if folded != chr(code):
            for part in set(folded):
                found.setdefault(part, []).append(chr(code))
    return found


def folds(text: str) -> dict[str, str]:
    """The characters outside ASCII that a script has to fold to find a folded text, and what they fold to.

    A script that folds ASCII and these finds the text exactly where full Unicode case folding would, because the folded
    form of any other character contains no character of the text.
    """
    return {other: other.casefold() for part in set(text) for other in _folding().get(part, ())}


def _span(args: QueryItems) -> Span | None:
    """The range that contains every match; None: it is empty."""
    first, last = 0, 2
    if priority := not_blank(args.priority):
        first = last = PRIORITY_CODES[one_of(priority, PRIORITY_NAMES, "priority")]
    low, high = _bounds(args.created_after, args.created_before, "created") or (-_EVER, _EVER)
    created_from, created_to = max(low - RANK_EPOCH, 0), min(high - RANK_EPOCH, _LAST_TIME)
    if created_from > created_to:
        return None
    return Span(first * 16, last * 16 + NO_COMPLEXITY, created_from, created_to)


def _classes(role: str | None, status: str | None) -> str:
    """The classes that contain every match. Only items of a held class have live claims, and each has some claim."""
    roles = [one_of(role, ROLES, "role")] if role else list(ROLES)
    letters = "".join(OF_ROLE[name] for name in roles)
    if status == "claimed":
        return "".join(letter for letter in letters if letter in _HELD)
    if status == "unclaimed":
        return "".join(letter for letter in letters if letter not in _HELD)
    return letters


def _conditions(args: QueryItems, parent: str) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    if parent:
        conditions["pa"] = parent
    if args.tags and (names := names_in(tags(args.tags.lower(), most=MAX_TAGS_ASKED))):
        conditions["g"] = dict.fromkeys(names, True)
    for attribute, name, letter, stored in _EQUAL:
        if (value := getattr(args, attribute)) is not None and (text := stored(value, name)):
            conditions[letter] = str(text)
    if args.depth is not None:
        conditions["d"] = args.depth
    if modified := _bounds(args.modified_after, args.modified_before, "modified"):
        conditions["m"] = modified
    if changed := _bounds(args.role_changed_after, args.role_changed_before, "roleChanged"):
        conditions["r"] = changed
    if due := _bounds(args.due_after, args.due_before, "due"):
        conditions["du"] = due
    if status := not_blank(args.claim_status):
        conditions["cl"] = one_of(status, CLAIM_STATUSES, "claimStatus")
    if text := not_blank(args.query):
        if len(text) > MAX_TITLE:
            raise invalid("query", f"must be at most {MAX_TITLE} characters")
        conditions["q"] = text.casefold()
        conditions["fold"] = folds(text.casefold())
    return conditions


def _parts(conditions: Mapping[str, Any]) -> list[IndexPart]:
    parts = []
    if "pa" in conditions:
        parts.append(IndexPart("pa", [f"p{conditions['pa']}"]))
    if "g" in conditions:
        parts.append(IndexPart("g", [f"g{name}" for name in conditions["g"]]))
    if "y" in conditions:
        parts.append(IndexPart("y", [f"y{conditions['y']}"]))
    if conditions.get("d") == 0:
        parts.append(IndexPart("d", ["p"]))
    return parts or [IndexPart("", ["*"])]


def search(args: QueryItems, parent: str) -> Search:
    """The checked search; ``parent`` is the resolved parentId, '' for none.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field and what is allowed.
    """
    conditions = _conditions(args, parent)
    classes, span = _classes(not_blank(args.role), conditions.get("cl")), _span(args)
    found = Search(
        parts=_parts(conditions),
        classes=classes if span else "",
        span=span or _EVERYTHING,
        conditions=conditions,
        sorting=_sorting(args.sort_by),
        descending=one_of(not_blank(args.sort_order) or "desc", ("asc", "desc"), "sortOrder") == "desc",
        limit=limit(args, DEFAULT_LIMIT),
        offset=args.offset,
        shown="a" * args.include_ancestors + "d" * args.include_details,
    )
    if not found.indexed and found.offset + found.limit > MAX_REACH:
        raise invalid("offset", f"plus limit must be at most {MAX_REACH} in a search that has to look at the items")
    return found


def _sorting(name: str | None) -> str:
    text = not_blank(name) or "createdAt"
    if text.lower() not in _SORTS:
        raise invalid("sortBy", f"'{text[:64]}' is not one of {', '.join(SORT_FIELDS)}")
    return _SORTS[text.lower()]


def limit(args: QueryItems, default: int) -> int:
    """The effective limit."""
    return min(args.limit or default, MAX_LIMIT)


def notice(args: QueryItems) -> str | UnsetType:
    """The hint about too high a limit."""
    if args.limit is None or args.limit <= MAX_LIMIT:
        return UNSET
    return f"limit: {str(args.limit)[:20]} is more than the maximum of {MAX_LIMIT}, so {MAX_LIMIT} was used"


def may_take_long(args: QueryItems) -> bool:
    """Whether the call may read or list very many items. Never fails."""
    operation = args.operation.lower()
    if operation == "overview":
        return args.include_children and (args.limit or 0) > FEW_ROOTS
    try:
        return operation == "search" and not search(args, "parent" if not_blank(args.parent_id) else "").indexed
    except ToolFailure:
        return False
