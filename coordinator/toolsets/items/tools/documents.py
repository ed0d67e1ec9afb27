"""Items as documents, which clients read by their URIs."""

from __future__ import annotations

from coordinator.toolsets.items.contract.query import QueryItems
from coordinator.toolsets.items.rules.ids import FULL, dashed, to_inner
from coordinator.toolsets.tool import Document, Tool


def documents(query_items: Tool) -> tuple[Document, ...]:
    return (
        Document(
            "items",
            "items",
            "Work items",
            "The newest items without a parent: query_items with operation overview.",
            query_items,
            lambda _: QueryItems(operation="overview"),
            follows="all",
        ),
        Document(
            "items/{id}",
            "item",
            "Work item",
            "An item in full, with its ancestors: query_items with operation get.",
            query_items,
            lambda item: QueryItems(operation="get", id=item, include_ancestors=True),
            _item,
        ),
        Document(
            "items/{id}/tree",
            "item-tree",
            "Work item with its children",
            "An item, the number of its children by role, and the newest 200: query_items with operation overview.",
            query_items,
            lambda item: QueryItems(operation="overview", item_id=item),
            _item,
            follows="root",
        ),
    )


def _item(text: str) -> str | None:
    inner = to_inner(text)
    return dashed(inner) if len(inner) == FULL else None
