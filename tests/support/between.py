"""Runs a change between two script runs of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import Script, Store

Change = Callable[[], Awaitable[Any]]
"""The change; its exceptions reach the call."""


def after(monkeypatch: pytest.MonkeyPatch, store: Store, runs: int, change: Change) -> None:
    """Runs ``change`` after ``runs`` runs, before the next one."""
    left = iter(range(runs))
    _once(monkeypatch, store, lambda _: next(left, None) is None, change)


def before(monkeypatch: pytest.MonkeyPatch, store: Store, name: str, change: Change) -> None:
    """Runs ``change`` before the script of this name runs."""
    _once(monkeypatch, store, lambda script: script.name == name, change)


def _once(monkeypatch: pytest.MonkeyPatch, store: Store, due: Callable[[Script[Any]], bool], change: Change) -> None:
    run = store.run

    async def changing(script: Script[Any], *arguments: Any, **more: Any) -> Any:
        if due(script):
            monkeypatch.setattr(store, "run", run)
            await change()
        return await run(script, *arguments, **more)

    monkeypatch.setattr(store, "run", changing)
