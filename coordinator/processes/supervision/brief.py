"""What a supervisor passes to its processes: a brief at the start, and the outcome of each reload."""

from __future__ import annotations

from typing import Literal

import msgspec

from coordinator.settings import Settings

Role = Literal["frontend", "worker"]


class ReloadOutcome(msgspec.Struct, frozen=True):
    at: str
    settings: Settings | None
    """The new settings; None: they are invalid, and the old ones stay in force."""
    problem: str = ""
    restart: tuple[str, ...] = ()
    """The names of changed settings that take effect only at the next start."""


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    role: Role
    slot: str
    refused_reload: ReloadOutcome | None = None
    """The outcome of the last reload, if it was rejected."""
    metrics_dir: str
    settings: Settings
    """The settings, with the port and store URL in use."""
