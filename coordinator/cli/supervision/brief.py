"""The brief that a supervisor gives to each process that it starts."""

from __future__ import annotations

from typing import Literal

import msgspec

from coordinator.cli.reload_outcome import ReloadOutcome
from coordinator.settings import Settings

Role = Literal["frontend", "worker"]


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a child process."""

    role: Role
    slot: str
    refused_reload: ReloadOutcome | None = None
    """The outcome of the last reload, if it was rejected."""
    metrics_dir: str
    settings: Settings
    """The settings, with the port and store URL in use."""
