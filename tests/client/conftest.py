"""A fleet for all tests of this folder, and a server whose answers a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.client.core import Core
from tests.client.deaf import Deaf
from tests.client.scripted import Scripted
from tests.support.fleets import RunningFleet
from tests.support.served import fleet, named, running
from tests.support.worker_calls import calls

__all__ = ["calls", "fleet", "named", "running"]


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    async with Scripted() as server:
        yield server


@pytest.fixture
async def deaf(running: RunningFleet, named: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    async with Deaf(running.state.base_url, project=named) as opened:
        monkeypatch.setattr(Core, "call", opened.answers(Core.call))
        yield opened
