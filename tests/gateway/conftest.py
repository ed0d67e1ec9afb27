"""Gateways and workers for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from coordinator.store import Store
from tests.gateway.lab import Lab, Worker, section, settings_of

MakeLab = Callable[..., Lab]


@pytest.fixture
async def make_lab(store: Store, project: str) -> AsyncIterator[MakeLab]:
    """Makes a gateway from parts of its section; ``connections`` and other settings by keyword ``settings``."""
    made: list[Lab] = []

    def make(settings: dict[str, Any] | None = None, **parts: Any) -> Lab:
        made.append(Lab(store, project, settings_of(section(**parts), project, **(settings or {}))))
        return made[-1]

    yield make
    for lab in made:
        await lab.close()


@pytest.fixture
async def working(make_lab: MakeLab, store: Store) -> AsyncIterator[Callable[..., Any]]:
    """Makes a gateway with a worker."""
    workers: list[Worker] = []

    async def make(settings: dict[str, Any] | None = None, **parts: Any) -> Lab:
        lab = make_lab(settings, **parts)
        workers.append(await Worker(store, lab.settings).start())
        return lab

    yield make
    for worker in workers:
        await worker.stop()
