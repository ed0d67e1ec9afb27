"""Request ids of this room's calls: UUIDs (seed 004)."""

from __future__ import annotations

from coordinator.store.requests import NONE, Request, request

__all__ = ["NONE", "Request", "request"]
