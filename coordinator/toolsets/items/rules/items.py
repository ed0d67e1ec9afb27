"""Makes of what callers say of items what scripts store, by the table of fields."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

from msgspec import UNSET, Struct

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.items.contract.specs import ItemSpec, TreeChild, TreeItem
from coordinator.toolsets.items.field_types.usage import Budget
from coordinator.toolsets.items.fields import FIELDS
from coordinator.toolsets.items.rules import values
from coordinator.toolsets.items.rules.kinds import FORMS
from coordinator.toolsets.items.rules.refusals import refused_id
from coordinator.toolsets.items.rules.times import due

Fields = dict[str, Any]
"""What is stored of an item, by letter; False: nothing."""


class NewItem(NamedTuple):
    """A new item for ``lua/changes/creation.lua``."""

    id: str
    parent: str
    """'': none."""
    role: int
    fields: Fields
    """Title, priority, and what else is given."""
    level: int = 0
    """Its level in the order of dependencies."""
    blockers: int = 0
    """The number of unsatisfied dependencies."""


def _givable(struct: type[Struct]) -> list[tuple[Any, ...]]:
    """Of each field that is made of one value: its attribute, name and letter, what makes it, and whether null and
    blank texts leave it as it is in an update."""
    hints = get_type_hints(ItemSpec, include_extras=True)
    fields = []
    for field in FIELDS:
        if (stored := FORMS[field.name].stored) is not None and field.attribute in struct.__struct_fields__:
            extra = hints[field.attribute].__metadata__[0].extra or {}
            kept = "unchanged_by_null" in extra, "unchanged_by_blank" in extra
            fields.append((field.attribute, field.name, field.letter, stored, *kept))
    return fields


_GIVABLE = {struct: _givable(struct) for struct in (ItemSpec, TreeItem, TreeChild)}


def refused_item(problem: ToolFailure) -> NewItem:
    """Sent to ``create_items.lua`` instead of an item that the current configuration rejects.

    So the refusal is recorded with the reply, and a retry gets the same answer under any configuration.
    """
    return NewItem(refused_id(problem), "", 0, {})


def new_item(spec: ItemSpec | TreeItem, item_id: str, parent: str, default_traits: str | None = None) -> NewItem:
    """A checked new item.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    role, fields = values.role(""), _properties(spec)
    if isinstance(spec, ItemSpec):
        if spec.id and spec.id.strip():
            raise invalid("id", "cannot be chosen; leave it out, or use operation update")
        role = values.role(spec.role)
    if "q" not in fields:
        fields["q"] = values.traits(values.names_in(default_traits or "")) or False
    values.title(spec.title)
    fields["p"] = values.priority("")
    for attribute, name, letter, stored, _, _ in _GIVABLE[type(spec)]:
        value = getattr(spec, attribute)
        if value is not UNSET and value is not None:
            fields[letter] = stored(value, name)
    due.check(fields)
    return NewItem(item_id, parent, role, {letter: text for letter, text in fields.items() if text is not False})


def changes(spec: ItemSpec, default_traits: str | None = None) -> Fields:
    """The fields of a partial update for ``update_items.lua``, without the parent.

    Null clears; a blank title, priority or summary changes nothing. Traits stay unless traits are given, in ``traits``
    ('' removes them) or in the properties.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field; ``role`` is never accepted.
    """
    if spec.role is not UNSET:
        raise invalid("role", "cannot be updated; use advance_item with a trigger")
    fields = _properties(spec)
    if "q" not in fields and values.not_blank(default_traits):
        fields["q"] = values.traits(values.names_in(default_traits or "")) or False
    for attribute, name, letter, stored, kept_by_null, kept_by_blank in _GIVABLE[ItemSpec]:
        value = getattr(spec, attribute)
        if value is UNSET or (kept_by_blank and isinstance(value, str) and not value.strip()):
            continue
        if value is not None:
            fields[letter] = stored(value, name)
        elif not kept_by_null:
            fields[letter] = False
    due.check(fields)
    return fields


def _properties(spec: ItemSpec | TreeItem) -> Fields:
    """The properties and traits that are given; traits may be given in the properties."""
    fields: Fields = {}
    stated, place = None, "traits"
    if isinstance(spec, ItemSpec) and spec.properties is not UNSET:
        text, stated = values.properties(spec.properties)
        fields["o"] = text or False
        place = "properties" if spec.properties else place
    if isinstance(spec.traits, str):
        stated, place = values.names_in(spec.traits), "traits"
    if stated is not None:
        fields["q"] = values.traits(stated, place) or False
    return fields


def shown(item: ItemSpec) -> dict[str, str]:
    """Fields that somebody was shown, as items store them, '' for none.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    fields = {}
    for attribute, name, letter, stored, _, _ in _GIVABLE[ItemSpec]:
        value = getattr(item, attribute)
        if value is not UNSET:
            text = False if value in (None, "", Budget()) else stored(value, name)
            fields[letter] = "" if text is False else str(text)
    return fields
