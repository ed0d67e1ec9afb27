"""Waiting calls send progress to callers with a progress token only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.client import Client

from coordinator.transport.mcp import progress
from tests.support.wait import wait_until
from tests.transport.live import open_gate, serving
from tests.transport.rig import Rig, call, legacy, make_app, meta, modern, send

pytestmark = pytest.mark.anyio

Told = list[tuple[float, float | None, str | None]]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)


def test_the_first_notification_comes_before_hosts_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert (progress.FIRST_SECONDS, progress.EVERY_SECONDS) == (5.0, 15.0)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdks_client(mode: Any) -> None:
    rig, told = Rig(), Told()
    with serving(lambda: make_app(rig, with_settings={"longest_wait_ms": 30_000})) as live:

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total, message))

        async with Client(live.url, mode=mode) as client:
            calling = asyncio.create_task(client.call_tool("watch", {"gate": "g"}, progress_callback=note))
            await wait_until(lambda: len(told) > 2, what="progress")
            open_gate(rig)
            assert (await calling).structured_content == {"ok": True}
            several = len(told)
            assert (await client.call_tool("watch", {"gate": "open"}, progress_callback=note)).structured_content
    assert len(told) == several, "a call that answers at once reports nothing"
    assert [total for _, total, _ in told] == [30.0] * several
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert all(message and "watch" in message and len(message) <= 80 for _, _, message in told)


@pytest.mark.parametrize("make", [modern, legacy])
@pytest.mark.parametrize("token", [None, 0, "t-1"])
async def test_only_with_a_token(make: Any, token: Any) -> None:
    rig = Rig()
    app = make_app(rig, with_settings={"longest_wait_ms": 400})
    params = call("watch", {"gate": "never"})
    if token is not None:
        params["_meta"] = {**(meta() if make is modern else {}), "progressToken": token}
    response = await send(app, "POST", "/mcp", *make("tools/call", params))
    assert (b"notifications/progress" in response.body) == (token is not None)
    assert b"deadline_exceeded" in response.body
    await app.stop()
