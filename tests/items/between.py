"""Lets something happen between two script runs of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import Script, Store


def after(monkeypatch: pytest.MonkeyPatch, store: Store, runs: int, change: Callable[[], Awaitable[Any]]) -> None:
    """Has ``change`` happen once so many runs have been made and another one is asked for."""
    run = store.run

    async def changing(script: Script[Any], *arguments: Any) -> Any:
        nonlocal runs
        if not runs:
            monkeypatch.setattr(store, "run", run)
            await change()
        runs -= 1
        return await run(script, *arguments)

    monkeypatch.setattr(store, "run", changing)
