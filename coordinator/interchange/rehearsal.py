"""A fleet for dry runs: questions are asked, and changes are answered as if they had been made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from coordinator.client import Fleet


class Rehearsal:
    """What an import calls of a fleet: the questions are put to the real one, and nothing is changed."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._made = fleet, 0

    async def call(self, tool: str, arguments: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The answer of a question; of a change, what an import reads of its success."""
        if tool.startswith("query_"):
            return await self._fleet.call(tool, arguments, **options)
        if tool == "advance_item":
            return {"results": [{"applied": True} for _ in arguments["transitions"]]}
        created = arguments.get("items" if tool == "manage_items" else "dependencies", ())
        self._made += len(created)
        # Ids that no item has.
        return {"items": [{"id": f"new-{self._made - n}"} for n in range(len(created))], "created": len(created)}

    @property
    def fleet(self) -> Fleet:
        return cast(Fleet, self)
