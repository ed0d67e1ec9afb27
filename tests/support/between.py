"""Lets something happen between two script runs of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import Script, Store

Change = Callable[[], Awaitable[Any]]
"""What happens; the call gets what it raises."""


def after(monkeypatch: pytest.MonkeyPatch, store: Store, runs: int, change: Change) -> None:
    """Has ``change`` happen once so many runs have been made and another one is asked for."""
    left = iter(range(runs))
    _once(monkeypatch, store, lambda _: next(left, None) is None, change)


def before(monkeypatch: pytest.MonkeyPatch, store: Store, name: str, change: Change) -> None:
    """Has ``change`` happen once the script of this name is asked for."""
    _once(monkeypatch, store, lambda script: script.name == name, change)


def _once(monkeypatch: pytest.MonkeyPatch, store: Store, due: Callable[[Script[Any]], bool], change: Change) -> None:
    run = store.run

    async def changing(script: Script[Any], *arguments: Any, **more: Any) -> Any:
        if due(script):
            monkeypatch.setattr(store, "run", run)
            await change()
        return await run(script, *arguments, **more)

    monkeypatch.setattr(store, "run", changing)
