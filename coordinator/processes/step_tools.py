"""The tools that steps of workflows can call, as a worker with these settings finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.settings import Settings
from coordinator.store import Store

if TYPE_CHECKING:
    from workers.tools.registry import Listing as Listing


async def listed_step_tools(settings: Settings) -> Sequence[Listing]:
    """Lists the tools of every source: our own, those of servers, and Python callables."""
    # Imported here, because most commands do not need RQ and the MCP client.
    from workers.run_kinds import step_tools

    # This store is never opened.
    registry = step_tools(settings, Store("redis://localhost"), _Nowhere())
    try:
        return await registry.list()
    finally:
        await registry.stop()


class _Nowhere:
    """Executes no calls."""

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        raise RuntimeError("listing tools calls none")
