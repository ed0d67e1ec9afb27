"""A root to write definitions into, and a way to read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.definitions import Definitions, Library
from tests.support.workflows import Tree

Read = Callable[[], Library]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


@pytest.fixture
def read(tree: Tree) -> Read:
    """Reads the current content of the tree."""
    return lambda: Definitions([tree.root], poll_seconds=0).current
