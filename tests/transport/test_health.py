"""/healthz, /readyz, /metrics, and the end of a process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.transport import FrontEnd
from coordinator.transport.http import health
from tests.support.wait import wait_until
from tests.transport.rig import FakeStore, Response, Rig, call, legacy, make_app, modern, send

pytestmark = pytest.mark.anyio

UNAVAILABLE = ToolFailure("store_unavailable", "nobody answers", retry_after_ms=100)


async def get(app: FrontEnd, path: str, method: str = "GET") -> Response:
    return await send(app, method, path, [("host", "localhost")])


async def test_alive_without_a_store() -> None:
    store = FakeStore()
    store.error = UNAVAILABLE
    response = await get(make_app(store=store), "/healthz")
    assert (response.status, response.json, store.pings) == (200, {"status": "alive"}, 0)


async def test_ready_with_every_check_its_age_and_latency() -> None:
    response = await get(make_app(), "/readyz")
    assert response.status == 200
    assert response.json["ready"] is True
    assert set(response.json["checks"]) == {"redis", "scripts", "draining"}
    for check in response.json["checks"].values():
        assert check["ok"] is True
        assert check["ageMs"] >= 0
        assert check["latencyMs"] >= 0
    assert response.json["checks"]["redis"]["latencyMs"] == 1.0


async def test_not_ready_without_a_store() -> None:
    store = FakeStore()
    store.error = UNAVAILABLE
    response = await get(make_app(store=store), "/readyz")
    assert (response.status, response.json["ready"]) == (503, False)
    assert response.json["checks"]["redis"]["reason"] == "nobody answers"


async def test_not_ready_while_the_store_takes_no_writes(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    app = make_app(store=alone)
    assert (await get(app, "/readyz")).status == 200
    await alone.command("CONFIG", "SET", "min-replicas-to-write", 1)
    response = await get(app, "/readyz")
    await alone.command("CONFIG", "SET", "min-replicas-to-write", 0)
    assert (response.status, response.json["checks"]["redis"]["ok"]) == (503, False)
    assert response.json["checks"]["redis"]["reason"] == "the store has too few replicas to take writes"


async def test_not_ready_without_scripts() -> None:
    store = FakeStore()
    store.scripts_loaded = False
    response = await get(make_app(store=store), "/readyz")
    assert (response.status, response.json["checks"]["scripts"]["ok"]) == (503, False)


async def test_a_defect_in_a_check_is_not_ready_and_does_not_stay(
    logged: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    store = FakeStore()
    store.error = RuntimeError("secret")
    app = make_app(store=store)
    response = await get(app, "/readyz")
    assert response.status == 503
    assert b"secret" not in response.body
    assert logged[-1]["event"] == "readiness check failed"
    store.error = None
    assert (await get(app, "/readyz")).status == 200


async def test_concurrent_probes_share_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 60.0)
    store = FakeStore()
    app = make_app(store=store)
    answers = await asyncio.gather(*(get(app, "/readyz") for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert store.pings == 1
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    await get(app, "/readyz")
    assert store.pings == 2


async def test_a_disconnected_probe_does_not_cancel_the_shared_check() -> None:
    answer, rendering, scraped = asyncio.Event(), threading.Event(), threading.Event()

    class SlowStore(FakeStore):
        async def ping(self) -> float:
            seconds = await super().ping()
            await answer.wait()
            return seconds

    def render() -> bytes:
        rendering.set()
        scraped.wait(60)
        return b"# metrics\n"

    store = SlowStore()
    app = make_app(store=store, render_metrics=render)
    pairs = [[asyncio.create_task(get(app, path)) for _ in range(2)] for path in ("/readyz", "/metrics")]
    await wait_until(lambda: store.pings and rendering.is_set())
    for left, _ in pairs:
        left.cancel()
        await asyncio.wait([left])
    answer.set()
    scraped.set()
    assert [(await stayed).status for _, stayed in pairs] == [200, 200]


async def test_internal_probes_ignore_allowed_hosts() -> None:
    app = make_app(with_settings={"allowed_hosts": ("fleet.example",)})
    ready, found = await app.readiness()
    assert ready
    assert set(found["checks"]) == {"redis", "scripts", "draining"}
    assert (await get(app, "/readyz")).status == 421
    app.begin_drain()
    assert not (await app.readiness())[0]


async def test_the_configuration_in_force_is_shown() -> None:
    assert "config" not in (await get(make_app(), "/readyz")).json
    shown = (await get(make_app(config=lambda: {"version": "7"}), "/readyz")).json
    assert shown["config"] == {"version": "7"}


async def test_metrics_are_rendered_off_the_loop_and_once_at_a_time() -> None:
    threads: list[int] = []
    release = threading.Event()

    def render() -> bytes:
        threads.append(threading.get_ident())
        release.wait(60)
        return b"# metrics\n"

    app = make_app(render_metrics=render)
    scrapes = [asyncio.create_task(get(app, "/metrics")) for _ in range(3)]
    await wait_until(lambda: threads)
    assert (await get(app, "/healthz")).status == 200
    release.set()
    for response in await asyncio.gather(*scrapes):
        assert (response.status, response.body) == (200, b"# metrics\n")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    await get(app, "/metrics")
    assert len(threads) == 2


async def test_metrics_that_cannot_be_rendered_are_a_defect(logged: list[Any]) -> None:
    def render() -> bytes:
        raise RuntimeError("secret")

    app = make_app(render_metrics=render)
    for _ in range(2):
        response = await get(app, "/metrics")
        assert response.status == 500
        assert response.json["error"]["code"] == -32603
        assert b"secret" not in response.body


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_take_get_and_head_only(path: str) -> None:
    app = make_app()
    assert (await get(app, path, "HEAD")).status == 200
    response = await get(app, path, "POST")
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


async def test_draining_serves_requests_is_unready_and_closes_connections(rig: Rig) -> None:
    app = make_app(rig)
    request = modern("tools/call", call("add", {"left": 1}))
    assert "connection" not in (await send(app, "POST", "/mcp", *request)).headers
    assert (await get(app, "/readyz")).status == 200
    assert not app.draining
    app.begin_drain()
    assert app.draining
    response = await get(app, "/readyz")
    assert (response.status, response.json["checks"]["draining"]["ok"]) == (503, False)
    assert (await get(app, "/healthz")).status == 200
    for one in (request, legacy("tools/call", call("add", {"left": "1"})), modern("tools/list")):
        response = await send(app, "POST", "/mcp", *one)
        assert (response.status, response.headers["connection"]) == (200, "close")
    await app.stop()


async def test_requests_in_flight_are_counted(rig: Rig) -> None:
    app = make_app(rig)
    assert app.in_flight == 0
    waiting = [
        asyncio.create_task(send(app, "POST", "/mcp", *make("tools/call", call("late", {"gate": name}))))
        for name, make in (("a", modern), ("b", legacy), ("c", modern))
    ]
    await wait_until(lambda: rig.waiting == {"a", "b", "c"})
    assert app.in_flight == 3
    for gate in rig.gates.values():
        gate.set()
    await asyncio.gather(*waiting)
    await send(app, "POST", "/nowhere")
    assert app.in_flight == 0
    await app.stop()


async def test_the_lifespan_warms_up_and_cancels_what_is_left(rig: Rig) -> None:
    app = make_app(rig)
    inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    outbox: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    watching = asyncio.create_task(send(app, "POST", "/mcp", *legacy("tools/call", call("watch", {"gate": "g"}))))
    await wait_until(lambda: rig.waiting == {"g"})
    await inbox.put({"type": "lifespan.shutdown"})
    assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
    await life
    assert rig.waiting == set()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_websockets_are_closed() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def deliver(message: Any) -> None:
        sent.append(message)

    await make_app()({"type": "websocket", "path": "/mcp", "headers": []}, receive, deliver)
    assert sent == [{"type": "websocket.close", "code": 1000}]
