"""A cluster over TLS whose nodes announce names: each is reached, and its certificate checked, by its name."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from coordinator.store import Store, StoreUnreachable
from coordinator.store.link.slot_map import SLOTS
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.certificates import self_signed
from tests.support.cluster import serves
from tests.support.ports import free_port
from tests.support.servers import binary_for
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.anyio

NODES = 3
NAME = "localhost"
"""The only name in the certificate; the nodes know each other by their address, 127.0.0.1."""


class Cluster(NamedTuple):
    """One that speaks TLS only."""

    ports: list[int]
    certificate: Path

    def url(self, host: str = NAME) -> str:
        return f"rediss+cluster://{host}:{self.ports[0]}?ssl_ca_certs={self.certificate}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    binary = binary_for("redis7")
    directory = tmp_path_factory.mktemp("tls")
    found = Cluster([free_port() for _ in range(NODES)], self_signed(directory, NAME))
    with contextlib.ExitStack() as stack:
        for port in found.ports:
            (folder := directory / str(port)).mkdir()
            pem = found.certificate
            options = {
                "port": 0, "tls-port": port, "bind": "127.0.0.1", "save": "", "dir": folder, "logfile": folder / "log",
                "tls-cert-file": pem, "tls-key-file": pem, "tls-ca-cert-file": pem, "tls-auth-clients": "optional",
                "tls-cluster": "yes", "cluster-enabled": "yes", "cluster-port": free_port(),
                "cluster-announce-hostname": NAME, "cluster-preferred-endpoint-type": "hostname",
            }  # fmt: skip
            words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
            process = stack.enter_context(subprocess.Popen([binary.path, *words], stdout=subprocess.DEVNULL))
            stack.callback(process.kill)
            wait_until_sync(partial(_started, process, port), what="a node")
            if process.poll() is not None:
                pytest.skip(f"{binary.path} was built without TLS")
        _form(found)
        yield found


def _form(cluster: Cluster) -> None:
    with contextlib.ExitStack() as stack:
        clients: list[Any] = [
            stack.enter_context(redis.Redis(NAME, port, ssl=True, ssl_ca_certs=str(cluster.certificate)))
            for port in cluster.ports
        ]
        buses = [client.config_get("cluster-port")["cluster-port"] for client in clients]
        for number, client in enumerate(clients):
            first, last = (SLOTS * at // NODES for at in (number, number + 1))
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", cluster.ports[0], buses[0])

        def named() -> bool:
            rows = [client.execute_command("CLUSTER", "SLOTS") for client in clients]
            return all(sorted(row[2][0] for row in found) == [NAME.encode()] * NODES for found in rows)

        wait_until_sync(
            lambda: named() and all(serves(client, NODES) for client in clients), what="the cluster with its names"
        )


def _started(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether a node listens, or has ended."""
    with socket.socket() as probe:
        return process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0


async def test_nodes_are_reached_by_their_announced_names(cluster: Cluster) -> None:
    store = Store(cluster.url(), timeout_ms=5000)
    await store.open()
    try:
        projects = [f"p{number}" for number in range(12)]
        for project in projects:
            await Client(store, project).add()
            assert (await audit(store, project)).differences == []
            assert await store.client_of(project).ping()
        assert len({id(store.link(project)) for project in projects}) == NODES
    finally:
        await store.close()


async def test_a_name_that_the_certificate_lacks_is_refused(cluster: Cluster) -> None:
    with pytest.raises(StoreUnreachable):
        await Store(cluster.url("127.0.0.1"), timeout_ms=5000).open()
