"""What a supervisor tells each process that it starts."""

from __future__ import annotations

from typing import Literal

import msgspec

from coordinator.cli.reload_outcome import ReloadOutcome
from coordinator.settings import Settings

Role = Literal["frontend", "worker"]


class Brief(msgspec.Struct, frozen=True):
    """What a child is to do."""

    role: Role
    slot: str
    # Its old name is kept between processes: a supervisor may start children of the release that replaces its own.
    refused_reload: ReloadOutcome | None = msgspec.field(name="news")
    """What came of the last reload, if it was refused."""
    metrics_dir: str
    settings: Settings
    """With the port in use, and in ``redis_url`` the store in use."""
