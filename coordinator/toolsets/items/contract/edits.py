"""manage_items as people use it in the console: they say what they were shown."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from coordinator.toolsets.items.contract.base import Arguments
from coordinator.toolsets.items.contract.items import ManageItems, Text
from coordinator.toolsets.items.contract.usage import Budget


class ShownItem(Arguments, kw_only=True):
    """Fields of an item as somebody was shown them; null: it had none; absent: not shown, or not changed."""

    title: Text = UNSET
    priority: Text = UNSET
    tags: Text = UNSET
    summary: Text = UNSET
    description: Text = UNSET
    not_before: Text = UNSET
    due_at: Text = UNSET
    retry_backoff_seconds: int | None | UnsetType = UNSET
    budget: Budget | None | UnsetType = UNSET


class EditItems(ManageItems, kw_only=True):
    """An update is refused where a field has another value now than was shown."""

    shown: list[ShownItem] | None = None
    """Of each item, in the order of ``items``."""
