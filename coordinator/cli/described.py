"""All toolsets where they are only described: their tools' names, schemas and examples, without a store."""

from __future__ import annotations

from coordinator.identity.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Toolset


def described_toolsets() -> dict[str, Toolset]:
    """Every toolset by its name; their tools cannot be called."""
    # Describing needs no store: this one is never opened.
    return load_toolsets(Services(Settings(), Store("redis://localhost"), trust_self_reported))
