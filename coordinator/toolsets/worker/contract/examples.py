"""Calls of each tool, as agents make them: their arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "work_next": ({}, {"tags": "docs,backend", "capabilities": ["python"], "ttlSeconds": 1800}),
    "work_note": (
        {
            "key": "progress",
            "body": "Handler and its tests are written; the migration is left.",
            "usage": {"inputTokens": 52_000, "outputTokens": 3_100, "costMicroUsd": 180_000, "model": "opus"},
        },
    ),
    "work_done": (
        {
            "itemId": "3f2a9c41-7d0e-4b6a-9c1d-2e5f80a1b3c4",
            "result": {"branch": "login-flow", "tests": 14},
            "summary": "Login flow with its tests.",
            "next": {},
        },
        {},
    ),
    "work_failed": (
        {"reason": "The schema of the migration is missing from the repository."},
        {"reason": "I am told to stop.", "handBack": True},
    ),
    "work_ask": ({"question": "Keep sessions for 1 day (as today) or for 30 days (as the ticket says)?"},),
}
