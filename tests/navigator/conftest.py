"""A client of the navigator toolset over the examples, and roots to write workflows into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.definitions import Definitions
from coordinator.store import Store
from tests.navigator.client import Client
from tests.support.workflows import Tree


@pytest.fixture
def nav(store: Store, project: str) -> Client:
    return Client(store, project)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


@pytest.fixture
def client(store: Store, project: str, tree: Tree) -> Callable[[], Client]:
    """A client over the current tree."""
    return lambda: Client(store, project, Definitions([tree.root], poll_seconds=0))
