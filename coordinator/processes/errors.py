"""Why a process cannot run, or a fleet not be used. Each text is a sentence for the operator, without secrets."""

from __future__ import annotations

from typing import Literal

Kind = Literal["failed", "usage", "port_busy", "data_dir", "store_too_old", "store_unreachable", "no_embedded_store"]
"""What is wrong, by what there is to be done. ``failed`` may pass by itself, all others need somebody's act."""


class ProcessProblem(Exception):
    """Ends a process, or keeps it from starting.

    Args:
        message: what failed, and what to do about it.
    """

    def __init__(self, message: str, kind: Kind = "failed") -> None:
        super().__init__(message)
        self.kind = kind
