"""How the values of the fields of items are checked, stored, shown and written out, by the table of fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from coordinator.toolsets.items.field_types.resources import GivenResource
from coordinator.toolsets.items.field_types.usage import Budget
from coordinator.toolsets.items.fields import FIELDS, Field, Kind
from coordinator.toolsets.items.rules import resources, values
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.roles import PRIORITY_NAMES
from coordinator.toolsets.items.rules.times import due
from coordinator.toolsets.items.rules.usage import budgets
from coordinator.toolsets.timestamp import iso

Stored = str | int | bool
"""What scripts store of a field; False: nothing."""


class Forms(NamedTuple):
    """The forms of a field's values; None: only its own code knows."""

    stored: Callable[[Any, str], Stored] | None = None
    """What a caller gives, which is not null, and the name of the field -> what is stored.

    Raises ToolFailure VALIDATION_ERROR naming the field."""
    shown: Callable[[str], Any] | None = None
    """What is stored -> what results show, and dumps of a project have."""
    restored: Callable[[Any, str], Stored] | None = None
    """What dumps have, and the name of the field -> what is stored; raises as ``stored``."""


def _text(check: Callable[[Any, str], str]) -> Forms:
    """Texts; of blank ones ``check`` makes ''."""
    return _TEXT._replace(stored=lambda value, name: check(value, name) or False)


def _parts(given: Any, stored: Callable[[Any], str], shown: Callable[[str], Any]) -> Forms:
    """Values with parts, given as this type, in a stored form of their own."""
    return Forms(
        lambda value, _: stored(value),
        shown,
        lambda value, _: stored(msgspec.convert(msgspec.to_builtins(value), given)),
    )


_TEXT = Forms(None, str, lambda value, _: value or False)
_YES = Forms(lambda value, _: "1" if value else False, lambda _: True, lambda value, _: "1" if value else False)
_NAMES = Forms(
    lambda value, name: ",".join(values.capabilities(value, name)) or False,
    lambda stored: stored.split(","),
    lambda value, _: ",".join(value) or False,
)
_TIME = Forms(due.given, lambda stored: iso(int(stored)), due.moment)
_ID = Forms(None, dashed, lambda uuid, _: uuid.replace("-", ""))

_OWN: dict[str, Forms] = {
    "title": _text(values.title),
    "priority": Forms(values.priority, lambda code: PRIORITY_NAMES[int(code)], values.priority),
    "tags": _text(values.tags),
    "type": _text(values.type_name),
    "description": _text(values.long_text),
    "metadata": _text(values.metadata),
    "properties": _TEXT,
    "traits": _TEXT,
    "resources": _parts(list[GivenResource], resources.demands, resources.shown),
    "budget": _parts(Budget, budgets.limits, budgets.shown_limits),
    "dueAt": Forms(due.given, due.shown_due, due.moment),
    "recurs": Forms(due.stored_recurs),
    "role": Forms(),
    "usage": Forms(),
}
_BY_KIND: dict[Kind, Callable[[Field], Forms]] = {
    Kind.TEXT: lambda field: _text(partial(values.bounded, most=field.most)),
    Kind.NUMBER: lambda field: Forms(
        partial(values.count, least=field.least, most=field.most), int, lambda value, _: int(value)
    ),
    Kind.YES: lambda _: _YES,
    Kind.NAMES: lambda _: _NAMES,
    Kind.TIME: lambda _: _TIME,
    Kind.ID: lambda _: _ID,
    Kind.OWN: lambda field: _OWN[field.name],
}
FORMS = {field.name: _BY_KIND[field.kind](field) for field in FIELDS}
"""By the name of the field."""
