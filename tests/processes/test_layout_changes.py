"""A store that is brought to another layout while processes of this one run, or are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.processes import read_processes
from coordinator.store.functions import present_libraries
from coordinator.store.layout import VERSION
from tests.support.fleets import Http, RunningCommand, once
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
KEY = keys.key_space.key(keys.FLEET)


async def test_a_front_end_that_was_stopped_meanwhile_neither_calls_nor_loads_functions(
    alone: Store, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    env: dict[str, Any] = {"FLEET_REDIS_URL": own_server.url, "FLEET_DATA_DIR": str(tmp_path / "data")}
    port = free_port()
    command = ("serve", "--port", str(port), "--frontends", "1")
    with RunningCommand(tmp_path / "serve", *command, **env) as running, Http(port) as http:
        await asyncio.to_thread(running.wait_ready)
        made = await asyncio.to_thread(http.call, "manage_items", operation="create", items=[{"title": "one"}])
        statuses = [one.status for one in (await read_processes(alone)).running]
        (front_end,) = [one.pid for one in statuses if one is not None and one.role == "frontend"]
        os.kill(front_end, signal.SIGSTOP)
        try:
            await alone.command("SET", KEY, VERSION + 1)
            await alone.command("FUNCTION", "FLUSH", "SYNC")
            item = {"operation": "update", "items": [{"id": made["items"][0]["id"], "title": "two"}]}
            asking = asyncio.create_task(asyncio.to_thread(http.answer, "manage_items", item))
        finally:
            os.kill(front_end, signal.SIGCONT)
        answer, failed = await asking
        assert failed
        assert answer["error"]["code"] == "layout_unknown"

        async def unready() -> bool:
            status, body = await asyncio.to_thread(once, port, "/readyz")
            return status == 503 and b"newer release" in body

        await wait_until(unready, what="the front-end to be unready")
        assert await present_libraries(alone.link()) == set()
        await alone.command("SET", KEY, VERSION)

        async def ready() -> bool:
            return (await asyncio.to_thread(once, port, "/readyz"))[0] == 200

        await wait_until(ready, what="the front-end to be ready again")
        _, failed = await asyncio.to_thread(http.answer, "manage_items", item)
        assert not failed
