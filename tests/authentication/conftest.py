"""A token file and authenticators for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.authentication.support import Authenticators, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.yaml")


@pytest.fixture
async def authenticators() -> AsyncIterator[Authenticators]:
    authenticators = Authenticators()
    yield authenticators
    await authenticators.close()
