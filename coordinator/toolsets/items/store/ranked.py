"""The best items of each class, for the tools that list items by role."""

from __future__ import annotations

from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.classes import Ranked
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.store.base import LIBRARY, BaseStore

_RANKED = Script(LIBRARY, "ranked_ids", list[Ranked])


class RankedStore(BaseStore):
    """The ranked items of any project."""

    async def ranked(self, project: str, parent: str, classes: str, limit: int) -> list[Ranked]:
        """The best ``limit`` items of each class, among the parent's children or ('') all items.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the parent.
        """
        try:
            return await self._store.run(_RANKED, project, parent, classes, limit)
        except ScriptFailure:
            raise no_such_item("parentId") from None
