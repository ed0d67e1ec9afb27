"""All toolsets without a store, for commands that need only the names, schemas and examples of tools."""

from __future__ import annotations

from coordinator.identity.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Toolset


def described_toolsets() -> dict[str, Toolset]:
    """Every toolset by its name. The tools cannot be called."""
    # This store is never opened.
    return load_toolsets(Services(Settings(), Store("redis://localhost"), trust_self_reported))
