"""A client of the items toolset for each test, and further ones on connections of their own."""

from __future__ import annotations

import pytest

from coordinator.store import Store
from tests.items.client import Client


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)
