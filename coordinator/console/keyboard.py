"""The dialogs of keys: the palette, which finds pages, projects and items, and the help, which lists all keys."""

from __future__ import annotations

import htpy
from htpy import Node, button, dd, dialog, dl, dt, form, h2, kbd, label, ul

from coordinator.console.view import path_of
from coordinator.console.viewer import Viewer
from coordinator.console.views import NAVIGATION
from coordinator.store.keys import DEFAULT_PROJECT

_KEYS = (
    ("Ctrl K", "find a page, a project or an item"),
    ("/", "go to the filter"),
    ("j k", "next and previous row"),
    ("h l", "list on the left and on the right"),
    ("Enter", "open what has the focus"),
    ("x", "choose an item"),
    (".", "actions of an item"),
    ("r", "pause or resume updates"),
    ("Esc", "close a dialog"),
    ("?", "this list"),
)


def dialogs(viewer: Viewer, project: str) -> Node:
    """Both dialogs, closed."""
    find = path_of("find", project or DEFAULT_PROJECT)
    pages = [(f"g {key}", view.title) for view, key in NAVIGATION if view.open_to(viewer)]
    return [
        dialog(".palette", id="palette", aria_label="Find")[
            form(method="get", action=find, role="search")[
                htpy.input(
                    id="find", type="search", name="text", autocomplete="off", aria_label="Find", aria_controls="found",
                    placeholder="page, project, title or id of an item",
                )
            ],
            ul(".found", id="found", data_src=f"{find}/~found"),
        ],
        dialog(".help", id="keys", aria_labelledby="keys-title")[
            h2(id="keys-title")["Keys"],
            dl[((dt[[[kbd[key], " "] for key in name.split()]], dd[text]) for name, text in (*_KEYS, *pages))],
            label[htpy.input(id="letters", type="checkbox", checked=True), " Keys that are single letters"],
            form(method="dialog")[button(type="submit")["Close"]],
        ],
    ]  # fmt: skip
