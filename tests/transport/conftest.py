"""Fixtures of the transport's tests: a rig, its fronts, and what they log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.transport import FrontEnd
from tests.transport.rig import Rig, make_app


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
async def app(rig: Rig) -> AsyncIterator[FrontEnd]:
    app = make_app(rig)
    yield app
    await app.aclose()
