"""A cluster behind TLS, whose certificate has another name than the hosts by which its nodes are reached."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from coordinator.store import Store, StoreUnreachable, keys
from coordinator.store.cluster.facts import read_cluster
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.link import clients
from coordinator.store.link.address import parse
from tests.support.certificates import self_signed

pytestmark = pytest.mark.anyio

NAME = "store.example"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), 1, fsync="everysec") as cluster:
        yield cluster


@pytest.fixture
async def url(cluster: EmbeddedCluster, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of the cluster through a port that ends TLS, without ``tls_name``."""
    certificate = self_signed(tmp_path, NAME)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    port, passing = cluster.nodes[0].port, set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        passing.update(asyncio.ensure_future(one) for one in (copy(reader, there[1]), copy(there[0], writer)))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        reached = server.sockets[0].getsockname()[1]
        login = cluster.url.partition("://")[2].partition("@")[0]
        mapped = f"127.0.0.1:{port}=127.0.0.1:{reached}"
        yield f"rediss+cluster://{login}@127.0.0.1:{port}?address_map={mapped}&ssl_ca_certs={quote(str(certificate))}"
    for one in passing:
        one.cancel()
    await asyncio.gather(*passing, return_exceptions=True)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_certificates_are_checked_against_the_name_that_the_url_states(url: str) -> None:
    with pytest.raises(StoreUnreachable, match="certificate verify failed"):
        await Store(url, timeout_ms=5000).open()
    named = f"{url}&tls_name={NAME}"
    store = Store(named, timeout_ms=5000)
    await store.open()
    try:
        assert await store.time() > 0
        assert await store.client.ping()
    finally:
        await store.close()
    assert (await read_cluster(parse(named), 5.0)).away == []
    with clients.client(parse(named), keys.FLEET) as client:
        assert await asyncio.to_thread(client.ping)
    with pytest.raises(StoreUnreachable, match="certificate verify failed"):
        await Store(f"{url}&tls_name=other.example", timeout_ms=5000).open()
