"""A token file and doors for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.door.support import Doors, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.yaml")


@pytest.fixture
async def doors() -> AsyncIterator[Doors]:
    doors = Doors()
    yield doors
    await doors.close()
