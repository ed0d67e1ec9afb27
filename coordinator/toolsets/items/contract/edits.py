"""manage_items as people use it in the console: they say what they were shown."""

from __future__ import annotations

from coordinator.toolsets.items.contract.items import ManageItems
from coordinator.toolsets.items.contract.specs import ItemSpec


class EditItems(ManageItems, kw_only=True):
    """An update is refused where a field has another value now than was shown."""

    shown: list[ItemSpec] | None = None
    """Of each item, in the order of ``items``; null: it had none; absent: not shown, or not changed."""
