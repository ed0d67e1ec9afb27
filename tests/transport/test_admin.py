"""The admin port."""

from __future__ import annotations

import pytest

from coordinator.cli.exits import Exit
from tests.support.fleets import fleet_command
from tests.transport.live import serving
from tests.transport.rig import FakeStore, Response, make_app, send

pytestmark = pytest.mark.anyio


async def ask(path: str, *headers: tuple[str, str], method: str = "GET", hosts: tuple[str, ...] = ()) -> Response:
    app = make_app(with_settings={"admin_port": 9, "admin_host": "0.0.0.0", "allowed_hosts": hosts})
    response = await send(app.admin, method, path, headers)  # type: ignore[arg-type] # any application
    await app.stop()
    return response


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1:9", "[::1]:9", "[fe80::1]", "localhost:9", "LOCALHOST"])
async def test_addresses_and_local_names_are_accepted(host: str) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await ask(path, ("host", host))).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "1.2.3", "0x7f.1", "[::1", "a b", ""])
async def test_other_names_are_rejected(host: str) -> None:
    assert (await ask("/metrics", ("host", host))).status == 421


async def test_names_that_the_operator_allows() -> None:
    assert (await ask("/metrics", ("host", "fleet.example:9"), hosts=("fleet.example",))).status == 200
    # An address needs no permission here.
    assert (await ask("/metrics", ("host", "10.0.0.1:9"), hosts=("fleet.example",))).status == 200


async def test_pages_of_other_origins_are_rejected() -> None:
    assert (await ask("/metrics", ("host", "127.0.0.1:9"), ("origin", "http://evil.example"))).status == 403
    assert (await ask("/metrics", ("host", "10.0.0.1:9"), ("origin", "http://10.0.0.1:9"))).status == 421
    assert (await ask("/metrics")).status == 421
    assert (await ask("/metrics", ("host", "127.0.0.1"), ("host", "evil.example"))).status == 400


async def test_nothing_else_is_served() -> None:
    for path in ("/mcp", "/", "/.well-known/oauth-protected-resource"):
        assert (await ask(path, ("host", "127.0.0.1"), method="POST")).status == 404
    assert (await ask("/metrics", ("host", "127.0.0.1"), method="POST")).status == 405
    assert (await ask("/metrics", ("host", "127.0.0.1"), method="HEAD")).status == 200


async def test_the_clients_port_serves_the_rest() -> None:
    app = make_app(with_settings={"admin_port": 9})
    for path, status in (("/healthz", 200), ("/readyz", 404), ("/metrics", 404)):
        assert (await send(app, "GET", path, [("host", "127.0.0.1")])).status == status
    await app.stop()


async def test_both_ports_report_the_same_readiness() -> None:
    store = FakeStore()
    app = make_app(store=store)
    app.begin_drain()
    for one in (app, app.admin):
        response = await send(one, "GET", "/readyz", [("host", "127.0.0.1")])  # type: ignore[arg-type]
        assert (response.status, response.json["checks"]["draining"]["ok"]) == (503, False)
    await app.stop()


def test_a_busy_port_is_named() -> None:
    with serving(make_app) as live:
        done = fleet_command("serve", "--port", "0", "--admin-port", str(live.port), FLEET_REDIS_URL="redis://x")
    assert done.returncode == Exit.PORT_BUSY
    assert f"port {live.port} on 127.0.0.1 is in use" in done.stderr
    assert "--admin-port or FLEET_ADMIN_PORT" in done.stderr
