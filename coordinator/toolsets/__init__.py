"""The toolsets: one room for each seed, all furnished alike; no room imports another."""

from __future__ import annotations

from coordinator.toolsets.items.tools import toolset as items_toolset
from coordinator.toolsets.navigator.tools import toolset as navigator_toolset
from coordinator.toolsets.tool import Services, Toolset


def load_toolsets(services: Services) -> dict[str, Toolset]:
    """Every toolset of the product over one process's services, by name."""
    return {room.name: room for room in (items_toolset(services), navigator_toolset(services))}
