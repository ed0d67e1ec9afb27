"""The calls that workers of the test's process make."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from coordinator.client.wire import Wire

Calls = list[dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Tool and arguments of the calls of workers, as they are sent; renewals are not among them."""
    made: Calls = []
    call = Wire.call

    async def noted(self: Wire, toolset: str, tool: str, arguments: dict[str, Any], *more: Any) -> dict[str, Any]:
        if threading.current_thread() is threading.main_thread():
            made.append({"tool": tool, **arguments})
        return await call(self, toolset, tool, arguments, *more)

    monkeypatch.setattr(Wire, "call", noted)
    return made
