"""A client of the flows toolset for each test."""

from __future__ import annotations

import pytest

from coordinator.store import Store
from tests.flows.client import Flows


@pytest.fixture
def flows(store: Store, project: str) -> Flows:
    return Flows(store, project)
