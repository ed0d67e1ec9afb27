"""Buttons and forms by which people change things; ``static/actions.js`` brings them to life.

What a button sends stands in its attributes: where to (``Change.to``, below the project's API) and the arguments, in
which a form or a dialog fills in what the person types, by path (``transitions.0.summary``). A button asks before what
cannot be taken back (``confirm``), offers to take back what can (``undo``), and shows what was refused beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import htpy
import msgspec
from htpy import Node, dialog, div, form, h2, label, li, menu, option, p, select, span, textarea

from coordinator.console.acts.actions import API
from coordinator.console.acts.confirms import Confirm
from coordinator.console.parts import plain
from coordinator.console.view import path_of
from coordinator.console.viewer import Viewer
from coordinator.identity.callers.permissions import OPERATE
from coordinator.operations import MAX_REASON

MODULE = "actions.js"
"""What pages with buttons need; ``View.modules``."""
_Arguments = Mapping[str, Any]
_NONE: _Arguments = MappingProxyType({})


class Change(NamedTuple):
    to: str
    """``call/<toolset>/<tool>`` or ``operate/<operation>``."""
    arguments: _Arguments
    done: str = ""
    """What is said when it is done."""
    undo: _Arguments | None = None
    """Arguments of the same call that take it back; None: nothing does."""
    then: tuple[str, _Arguments] | None = None
    """A second change, once this one is made."""


def refusal(viewer: Viewer, toolset: str = "") -> str:
    """Why a viewer may not change anything of a toolset, or, without one, operate; empty: they may."""
    if viewer.caller is None:
        return "sign in to change anything"
    if not viewer.is_person:
        return "only people may change anything here"
    if not toolset:
        return "" if viewer.operates else f"needs the permission '{OPERATE}'"
    return "" if viewer.changes(toolset) else f"needs the permission '{toolset}'"


def button(
    text: str,
    change: Change,
    project: str,
    *,
    confirm: Confirm | None = None,
    refused: str = "",
    kind: str = "",
    each: str = "",
) -> Node:
    """A button that makes a change.

    Args:
        project: empty: the change is about the fleet.
        refused: why it cannot be made now; empty: it can.
        kind: ``primary`` or ``danger``.
        each: it is made of each item that is chosen on the page: ``<list>.<field>``, the list of the arguments whose
            only element is repeated, and the field in it that gets the item's id.
    """
    if refused:
        return _refused(text, refused)
    return htpy.button(
        type="button", class_=kind or None, data_each=each or None, **attributes(change, project, confirm)
    )[text]


def opener(text: str, dialog_id: str, values: _Arguments = _NONE, refused: str = "") -> Node:
    """A button that opens a dialog of the page, with values of its fields by name."""
    if refused:
        return _refused(text, refused)
    return htpy.button(type="button", data_opens=dialog_id, data_values=_json(values) if values else None)[text]


def _refused(text: str, why: str) -> Node:
    locked = htpy.button(type="button", disabled=True, title=why)[text]
    return span(".refused")[locked, " ", span(".why")[why]]


def form_dialog(
    id: str, title: str, change: Change, project: str, fields: Sequence[Node], verb: str, *, edits: bool = False
) -> Node:
    """A dialog with a form; it has to be outside of regions, so that what was typed stays.

    Args:
        edits: it sends only the fields of ``items.0`` that the person has changed, each with what it was before, as
            ``shown.0``, so that a change by somebody else is not taken back unseen.
    """
    return dialog(id=id, aria_labelledby=f"{id}-title")[
        form(".action", method="dialog", data_edits=edits or None, **attributes(change, project))[
            h2(id=f"{id}-title")[title],
            fields,
            div(".failed", role="alert"),
            div(".buttons")[htpy.button(".primary", type="submit")[verb], _closer(id, "Close")],
        ]
    ]


def action_dialogs() -> Node:
    """The dialogs that scripts fill: the actions of an item, and what is asked before one of them."""
    return [
        dialog(id="menu", aria_labelledby="menu-title")[
            h2(id="menu-title"),
            menu(".actions.menu"),
            div(".failed", role="alert"),
            div(".buttons")[_closer("menu", "Close")],
        ],
        dialog(id="confirm", aria_labelledby="confirm-title")[
            form(".action", method="dialog")[
                h2(id="confirm-title"),
                p,
                text_field("reason", "Reason", most=MAX_REASON),
                text_field("typed", ""),
                div(".failed", role="alert"),
                div(".buttons")[htpy.button(".danger", type="submit"), _closer("confirm", "Back")],
            ]
        ],
    ]


def _closer(dialog_id: str, text: str) -> Node:
    return htpy.button(type="button", commandfor=dialog_id, command="close")[text]


def text_field(
    name: str, title: str, *, lines: int = 1, required: bool = False, most: int = 0, hint: str = "", **more: bool
) -> Node:
    """A field for a text; one that is empty is left out, unless it had a value. ``data_fixed``: a value that it has
    stays."""
    common = {
        "name": name,
        "required": required,
        "maxlength": str(most) if most else None,
        "placeholder": hint or None,
        "autocomplete": "off",
        **more,
    }
    field = htpy.input(type="text", **common) if lines == 1 else textarea(rows=str(lines), **common)
    return label(".field")[span[title], field]


def number_field(name: str, title: str) -> Node:
    """A field for a whole number from 1 on; one that is empty is left out, unless it had a value."""
    return label(".field")[span[title], htpy.input(type="number", name=name, min="1", step="1", data_kind="json")]


def choice_field(name: str, title: str, values: Sequence[str], chosen: str = "") -> Node:
    options = [option(value=value, selected=value == chosen)[value or "any"] for value in values]
    return label(".field")[span[title], select(name=name)[options]]


def hidden_field(name: str) -> Node:
    """A field that only the opener of the dialog fills."""
    return htpy.input(type="hidden", name=name)


def menu_opener(project: str, item: str, title: str) -> Node:
    path = path_of("item", project, item) + "/~actions"
    return htpy.button(".quiet.more", type="button", data_menu=path, aria_label=f"Actions of {plain(title)}")["\u22ef"]


def choice(title: str) -> Node:
    """A box by which an item of a list is chosen, with others."""
    return htpy.input(".choose", type="checkbox", data_choose=True, aria_label=f"Choose {plain(title)}")


def toolbar(name: str, buttons: Sequence[Node]) -> Node:
    return menu(".actions", aria_label=name)[(li[button] for button in buttons)]


def note(text: str) -> Node:
    return p(".why")[text]


def attributes(change: Change, project: str, confirm: Confirm | None = None) -> dict[str, str | None]:
    """What a button or a form says of the change that it makes, and of what is asked before."""
    asking = confirm or Confirm("")
    attributes = {
        "data_confirm": asking.question or None,
        "data_reason": asking.reason or None,
        "data_needed": "yes" if asking.needed else None,
        "data_typed": asking.typed or None,
        "data_action": path_of(API, project, change.to),
        "data_arguments": _json(change.arguments),
        "data_done": change.done or None,
        "data_undo": None if change.undo is None else _json(change.undo),
    }
    if change.then is not None:
        to, arguments = change.then
        attributes["data_then"] = _json({"action": path_of(API, project, to), "arguments": arguments})
    return attributes


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
