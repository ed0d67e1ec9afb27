"""The store over TLS, against a server that was built with it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.store import AddressError, Store, StoreUnreachable
from tests.store.calls import BUMP
from tests.store.conftest import MakeStore
from tests.support.certificates import self_signed
from tests.support.ports import free_port
from tests.support.servers import binary_for
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port and the certificate (with its key) of a server that speaks TLS only."""
    binary = binary_for("redis7")
    directory = tmp_path_factory.mktemp("tls")
    certificate = self_signed(directory, "127.0.0.1")
    port = free_port()
    options = {
        "port": 0, "tls-port": port, "bind": "127.0.0.1", "save": "", "dir": directory, "tls-auth-clients": "optional",
        "tls-cert-file": certificate, "tls-key-file": certificate, "tls-ca-cert-file": certificate,
        "logfile": directory / "log",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen([binary.path, *words], stdout=subprocess.DEVNULL)
    try:
        wait_until_sync(lambda: process.poll() is not None or _listens(port), what="the TLS server")
        if process.poll() is not None:
            pytest.skip(f"{binary.path} was built without TLS")
        yield port, certificate
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    "options",
    ["ssl_ca_certs={0}", "ssl_cert_reqs=none", "ssl_ca_certs={0}&ssl_certfile={0}&ssl_keyfile={0}"],
    ids=["verified", "unverified", "client-certificate"],
)  # fmt: skip
async def test_calls_go_over_tls(options: str, tls_server: tuple[int, Path], make_store: MakeStore) -> None:
    port, certificate = tls_server
    store: Store = make_store(f"rediss://127.0.0.1:{port}?{options.format(certificate)}", timeout_ms=5000)
    await store.open()
    counts: list[Any] = await asyncio.gather(*(store.run(BUMP, "p", options) for _ in range(200)))
    assert counts == list(range(counts[0], counts[0] + 200))
    assert await store.client.ping()


async def test_a_server_with_an_untrusted_certificate_is_rejected(
    tls_server: tuple[int, Path], make_store: MakeStore
) -> None:
    with pytest.raises(StoreUnreachable, match="certificate verify failed"):
        await make_store(f"rediss://127.0.0.1:{tls_server[0]}").open()


async def test_a_certificate_of_an_unknown_authority_is_rejected_with_advice(
    tmp_path: Path, make_store: MakeStore
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path, "127.0.0.1"))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        message = r"certificate verify failed: self.signed certificate; ssl_ca_certs=FILE in the URL names an authority"
        with pytest.raises(StoreUnreachable, match=message):
            await make_store(f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_ms=5000).open()


async def test_a_missing_certificate_is_reported(tls_server: tuple[int, Path], make_store: MakeStore) -> None:
    with pytest.raises(AddressError, match="certificates"):
        await make_store(f"rediss://127.0.0.1:{tls_server[0]}?ssl_ca_certs=/no/such/file").open()
