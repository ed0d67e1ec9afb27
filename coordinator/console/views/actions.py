"""Actions: what the viewer may do with one item; menus of items in lists show the same."""

from __future__ import annotations

from collections.abc import Mapping

from htpy import Node, p

from coordinator.console.buttons import MODULE
from coordinator.console.item_actions import ACTIONS, actions_element, dialogs
from coordinator.console.parts import item_id, item_link
from coordinator.console.view import Asked, Rendered, View


async def _body(asked: Asked, found: Mapping[str, Rendered]) -> Node:
    got = {"operation": "get", "id": asked.id}
    item = await asked.reads.tool(asked.viewer, asked.project, "items", "query_items", got)
    return [
        p[item_link(asked.project, item.id, item.title), " ", item_id(item.id)],
        actions_element(asked, found),
        dialogs(asked),
    ]


VIEW = View(
    "actions", "Actions", _body, {"actions": ACTIONS}, needs=("items",), takes_id=True, modules=(MODULE,)
)  # fmt: skip
