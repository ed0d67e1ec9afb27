"""Forms in a page, for what people are asked: a field for each argument, and one button."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import htpy
import msgspec
from htpy import Node, div, form, label, option, select, span, textarea

from coordinator.console.acts.buttons import Change, attributes, button
from coordinator.console.acts.confirms import Confirm
from coordinator.console.parts import plain

_LINES = 3
_NUMBERS = ("integer", "number")


def answer_form(
    project: str,
    change: Change,
    verb: str,
    fields: Node = None,
    *,
    about: str = "",
    refused: str = "",
    confirm: Confirm | None = None,
    kind: str = "primary",
) -> Node:
    """A form, or only its button if there is nothing to fill in, or if it is refused.

    Args:
        about: names what it answers: what is typed stays as long as there is a form with this name.
        refused: why it cannot be sent now; empty: it can.
    """
    if refused or not fields:
        return button(verb, change, project, confirm=confirm, refused=refused, kind=kind)
    return form(".action", method="dialog", data_about=about, **attributes(change, project, confirm))[
        fields, div(".failed", role="alert"), htpy.button(class_=kind, type="submit")[verb]
    ]


def schema_fields(schema: Mapping[str, Any] | None, values: Mapping[str, Any], place: str) -> Node:
    """Fields for what a JSON Schema of an object has. What is neither text, number, choice nor yes or no is JSON.

    Args:
        values: to begin with.
        place: where the object is in the arguments of the call, such as ``arguments``.
    """
    if schema is None:
        return None
    properties, required = schema.get("properties"), schema.get("required", ())
    if not isinstance(properties, dict):
        return _field(place, "arguments", schema, values or None, True)
    return [
        _field(f"{place}.{name}", name, member if isinstance(member, dict) else {}, values.get(name), name in required)
        for name, member in properties.items()
    ]


def _field(place: str, name: str, schema: Mapping[str, Any], initial: Any, required: bool) -> Node:
    title, about = str(schema.get("title") or name), str(schema.get("description") or "")
    value = initial if initial is not None else schema.get("default")
    more = {"name": place, "required": required and schema.get("type") != "boolean"}
    return label(".field")[
        span[plain(title), None if required else span(".dim")[" (optional)"]],
        span(".dim")[plain(about)] if about else None,
        _control(schema, value, more),
    ]


def _control(schema: Mapping[str, Any], value: Any, more: Mapping[str, Any]) -> Node:
    kind, options = schema.get("type"), schema.get("enum")
    if isinstance(options, list) and options:
        return select(more, data_kind="json")[list(_options(options, value))]
    if kind == "boolean":
        return htpy.input(more, type="checkbox", checked=value is True, data_kind="boolean")
    if kind in _NUMBERS:
        limits = {name: str(schema[key]) for name, key in (("min", "minimum"), ("max", "maximum")) if key in schema}
        step = "1" if kind == "integer" else "any"
        text = "" if value is None else str(value)
        return htpy.input({**more, **limits}, type="number", step=step, value=text, data_kind="json")
    if kind == "string":
        most = schema.get("maxLength")
        text = "" if value is None else str(value)
        return textarea(more, rows=str(_LINES), maxlength=str(most) if most else None)[text]
    text = "" if value is None else msgspec.json.format(msgspec.json.encode(value)).decode()
    return textarea(more, rows=str(_LINES), data_kind="json", placeholder="JSON", spellcheck="false")[text]


def _options(options: Sequence[Any], value: Any) -> Iterator[Node]:
    yield option(value="")["choose"]
    for choice in options:
        text = msgspec.json.encode(choice).decode()
        yield option(value=text, selected=choice == value and value is not None)[
            plain(choice if isinstance(choice, str) else text)
        ]
