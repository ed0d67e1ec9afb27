"""A fleet for all tests of this folder, and a server whose answers a test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.scripted import Scripted
from tests.support.served import fleet, named, running
from tests.support.worker_calls import calls

__all__ = ["calls", "fleet", "named", "running"]


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    async with Scripted() as server:
        yield server
