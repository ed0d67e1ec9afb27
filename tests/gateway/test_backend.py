"""How a process handles changes of downstream servers."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.store import Store
from coordinator.toolsets.gateway.rules.catalogue import Servers
from coordinator.toolsets.gateway.store.servers import ServerStore
from coordinator.toolsets.gateway.tools.backend import Backend
from coordinator.toolsets.tool import Services
from tests.gateway.lab import section, settings_of

pytestmark = pytest.mark.anyio

FOLLOWING = section(discovery={"include": ["connections"]})
"""Agents find the tools of downstream servers, so they are read."""


async def test_an_unusable_update_does_not_end_the_updates(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one server could block the updates of all others for good."""
    backend = Backend(Services(settings_of(FOLLOWING, project), store, trust_self_reported))
    looked: list[int] = []
    again = asyncio.Event()

    async def read(_: ServerStore) -> Servers:
        looked.append(1)
        if len(looked) > 1:
            again.set()
            return {}
        backend.servers_changed.set()
        raise ValueError("a server said what nobody expects")

    monkeypatch.setattr(ServerStore, "read", read)
    await backend.start()
    try:
        # Updates from the start of the subscription may interfere, so this repeats until it is noticed.
        async with asyncio.timeout(60):
            while not again.is_set():
                backend.servers_changed.set()
                await asyncio.sleep(0)
    finally:
        await backend.stop()


async def test_an_update_during_a_read_causes_another_read(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Backend(Services(settings_of(FOLLOWING, project), store, trust_self_reported))
    monkeypatch.setattr(backend.listener, "start", lambda: None)  # no other message comes
    looks = 0
    again = asyncio.Event()

    async def read(_: ServerStore) -> Servers:
        nonlocal looks
        looks += 1
        if looks == 1:
            backend.servers_changed.set()
        else:
            again.set()
        return {}

    monkeypatch.setattr(ServerStore, "read", read)
    await backend.start()
    try:
        async with asyncio.timeout(20):
            await again.wait()
    finally:
        await backend.stop()
