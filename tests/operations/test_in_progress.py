"""The work in progress that a drain waits for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.operations import in_progress
from coordinator.operations.in_progress import look, until_nothing
from coordinator.store import Store, keys
from tests.items.moments import server_time


@pytest.mark.anyio
async def test_a_step_that_claims_and_ends_during_a_scan_is_counted(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, scan, looks = store.client, store.client.scan_iter, iter((False, True))
    later = await server_time(store) + 60_000
    await store.command("ZADD", keys.step_leases.key(project), later, "step")

    async def changing(**options: Any) -> AsyncIterator[bytes]:
        if next(looks):
            await store.command("ZADD", keys.leases.key(project), later, "agent")
            await store.command("DEL", keys.step_leases.key(project))
        async for key in scan(**options):
            yield key

    monkeypatch.setattr(client, "scan_iter", changing)
    left = await look(client)
    assert project in left.claims | left.steps


@pytest.mark.anyio
async def test_a_scan_that_began_before_all_processes_drained_is_repeated() -> None:
    settled, looks = 0.05, iter(("", "1 claim", ""))

    async def in_hand() -> str:
        until = time.monotonic() + settled
        while time.monotonic() < until:
            pass
        return next(looks)

    lines: list[str] = []
    assert await until_nothing(in_hand, settled, 300, "", lines.append)
    assert lines == ["in progress: 1 claim", "no work is in progress"]


@pytest.mark.anyio
async def test_unchanged_work_in_progress_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(in_progress, "POLL_SECONDS", 0.0)
    looks = iter(("2 claims", "2 claims", "2 claims", "1 claim", ""))

    async def in_hand() -> str:
        return next(looks)

    lines: list[str] = []
    assert await until_nothing(in_hand, 0, 300, "", lines.append)
    assert lines == ["in progress: 2 claims", "in progress: 1 claim", "no work is in progress"]
