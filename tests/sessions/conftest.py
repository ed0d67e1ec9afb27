"""Clients of the sessions toolset: on the lab's definitions, on the examples, and with other settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from coordinator.definitions import Definitions, shipped
from coordinator.store import Store
from tests.sessions import lab
from tests.sessions.client import Sessions, settings

Make = Callable[..., Sessions]


@pytest.fixture(scope="session")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    """The lab's definitions."""
    return Definitions([lab.write(tmp_path_factory.mktemp("lab"))], 0)


@pytest.fixture(scope="session")
def examples() -> Definitions:
    """The product's example definitions."""
    return Definitions([shipped()], 0)


@pytest.fixture
def make(store: Store, project: str, definitions: Definitions) -> Make:
    """Makes front-ends on the test's project: with other settings or definitions."""

    def made(
        least_seconds: int = 0, definitions: Definitions = definitions, store: Store = store, **more: Any
    ) -> Sessions:
        return Sessions(store, project, definitions, settings(least_seconds, **more))

    return made


@pytest.fixture
def sessions(make: Make) -> Sessions:
    return make()


@pytest.fixture
async def elsewhere(store: Store, make: Make) -> AsyncIterator[Sessions]:
    """On another project."""
    other = make()
    other.project += "-2"
    yield other
    for key in await store.command("KEYS", f"fc:{{{other.project}}}:*"):
        await store.command("DEL", key)
