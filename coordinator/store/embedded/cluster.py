"""A cluster of embedded servers on loopback, for trying out and for tests: several shards on one data directory.

Each node is an ``EmbeddedServer`` in a directory of its own below ``shards``, on a TCP port and a bus port that it
keeps over restarts, because nodes know each other by these. All have one password. The number of shards is fixed when
the data directory is made. Without replicas, a shard that ends is away until it is started again.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.settings.paths import make_own
from coordinator.store.embedded import binary as server_binary
from coordinator.store.embedded.server import (
    SHARDS,
    DataDirUnusable,
    EmbeddedServer,
    ServerFailed,
    owner_lock,
    password_of,
)
from coordinator.store.link.slot_map import SLOTS

SHARDS_MOST = 8
NODE_TIMEOUT_MS = 5000
FORM_SECONDS = 60.0
"""How long the nodes may take to know each other and to cover all slots."""
_PAUSE_SECONDS = 0.02


class Node(EmbeddedServer):
    """One server of a cluster. Arguments as for ``EmbeddedServer``; its password is that of the cluster."""

    node_timeout_ms = NODE_TIMEOUT_MS

    def endpoint(self) -> tuple[str | int, list[tuple[str, str]]]:
        port, bus = self.ports()
        return port, [("port", str(port)), ("bind", "127.0.0.1"), ("cluster-port", str(bus))]

    def config(self, settings: list[tuple[str, str]], password: str) -> str:
        return super().config(
            [
                *settings,
                ("cluster-enabled", "yes"),
                ("cluster-config-file", "nodes.conf"),
                ("cluster-node-timeout", str(self.node_timeout_ms)),
                ("cluster-require-full-coverage", "no"),
                ("masterauth", password),
                ("repl-diskless-sync-delay", "0"),
            ],
            password,
        )

    def ports(self) -> tuple[int, int]:
        """The port of the server and that of its bus, chosen at the first start."""
        file = self.data_dir / "redis.port"
        if not file.exists():
            with socket.socket() as one, socket.socket() as other:
                for probe in (one, other):
                    probe.bind(("127.0.0.1", 0))
                file.write_text(f"{one.getsockname()[1]}\n{other.getsockname()[1]}\n", encoding="ascii")
        port, bus = file.read_text(encoding="ascii").split()
        return int(port), int(bus)

    @property
    def port(self) -> int:
        return self.ports()[0]

    def client(self) -> redis.Redis:
        """A client of this node alone, which the caller closes."""
        password = (self.data_dir / "redis.password").read_text(encoding="ascii").strip()
        limits: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 1.0}
        return redis.Redis(port=self.port, password=password, retry=Retry(NoBackoff(), 0), **limits)


class EmbeddedCluster:
    """A cluster on one data directory.

    Args:
        data_dir: created if it is missing; used by one cluster at a time.
        shards: primaries, 1 to ``SHARDS_MOST``; fixed once the directory is made.
        replicas: of each primary; fixed, too.
        fsync, binary: as for ``EmbeddedServer``.
        node_timeout_ms: after how long without an answer the others hold a node for down.
    """

    def __init__(
        self,
        data_dir: Path | str,
        shards: int,
        replicas: int = 0,
        fsync: Literal["always", "everysec"] = "always",
        *,
        binary: server_binary.Binary | None = None,
        node_timeout_ms: int = NODE_TIMEOUT_MS,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._shards = shards
        self._owner_lock: IO[str] | None = None
        count = shards * (1 + replicas)
        self.nodes = [Node(self.data_dir / SHARDS / str(n), fsync, binary=binary) for n in range(count)]
        """The primaries at first, then the replicas of the first one, the second one and so on in turn."""
        for node in self.nodes:
            node.node_timeout_ms = node_timeout_ms

    def start(self) -> str:
        """Starts all nodes that do not run, waits until the cluster serves, and returns its URL, which holds the
        password.

        Raises:
            DataDirUnusable: the directory was made with another number of nodes.
            EmbeddedError: as ``EmbeddedServer.start``.
        """
        try:
            self._own()
            password = password_of(self.data_dir)
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(lambda node: self._start(node, password), self.nodes))
            self._form()
        except OSError as error:
            self.stop()
            raise DataDirUnusable(f"the data directory {self.data_dir} cannot be used: {error}") from None
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Ends all nodes, and frees the directory."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Node.stop, self.nodes))
        if self._owner_lock is not None:
            self._owner_lock.close()
            self._owner_lock = None

    @property
    def url(self) -> str:
        """The cluster's URL, password included: show it only through ``settings.redacted``."""
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://:{quote(password_of(self.data_dir), safe='')}@{places}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _own(self) -> None:
        """Creates the directory and locks it."""
        make_own(self.data_dir)
        self._owner_lock = self._owner_lock or owner_lock(self.data_dir)
        alone, folder = self.data_dir / "redis", self.data_dir / SHARDS
        made = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
        if made not in (0, len(self.nodes)) or (alone.is_dir() and any(alone.iterdir())):
            servers = made or 1
            raise DataDirUnusable(
                f"the data directory {self.data_dir} was made with shards {servers}: the setting cannot be changed"
            )

    def _start(self, node: Node, password: str) -> None:
        node.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        password_of(node.data_dir, password)
        node.start()

    def _form(self) -> None:
        """Makes the nodes a cluster, unless they are one, and waits until it serves."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(contextlib.closing(node.client())) for node in self.nodes]
            if all(_facts(client)["cluster_slots_assigned"] == "0" for client in clients):
                self._introduce(clients)
            self._wait(lambda: all(_serves(client, len(clients)) for client in clients), "the cluster does not serve")

    def _introduce(self, clients: list[redis.Redis]) -> None:
        primaries = clients[: self._shards]
        for number, client in enumerate(clients):
            _call(client, "SET-CONFIG-EPOCH", number + 1)
            if number < self._shards:
                first, last = (SLOTS * at // self._shards for at in (number, number + 1))
                _call(client, "ADDSLOTSRANGE", first, last - 1)
            if number:
                port, bus = self.nodes[0].ports()
                _call(client, "MEET", "127.0.0.1", port, bus)
        known = str(len(clients))
        self._wait(
            lambda: all(_facts(client)["cluster_known_nodes"] == known for client in clients), "the nodes do not meet"
        )
        ids = [_call(client, "MYID").decode() for client in primaries]
        for number, client in enumerate(clients[self._shards :]):
            self._wait(lambda of=client, at=number: _replicates(of, ids[at % self._shards]), "a replica does not join")

    def _wait(self, condition: Any, problem: str) -> None:
        deadline = time.monotonic() + FORM_SECONDS
        while not condition():
            ended = next((node for node in self.nodes if node.poll() is not None), None)
            if ended is not None:
                raise ServerFailed(f"a node of the embedded cluster ended: {ended.last_words()} (see {ended.log})")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{problem} after {FORM_SECONDS:.0f} s")
            time.sleep(_PAUSE_SECONDS)


def _call(client: redis.Redis, *words: str | int) -> Any:
    return client.execute_command("CLUSTER", *words)  # type: ignore[no-untyped-call, unused-ignore]


def _facts(client: redis.Redis) -> dict[str, str]:
    reply = _call(client, "INFO")
    text = reply.decode() if isinstance(reply, bytes) else "\n".join(f"{name}:{value}" for name, value in reply.items())
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, found, value = line.partition(":")
        if found:
            yield name, value.strip()


def _serves(client: redis.Redis, nodes: int) -> bool:
    facts = _facts(client)
    state = (facts["cluster_state"], facts["cluster_slots_assigned"], facts["cluster_known_nodes"])
    return state == ("ok", str(SLOTS), str(nodes))


def _replicates(client: redis.Redis, primary: str) -> bool:
    """Makes a node the replica of another; False: it has not heard of that one yet."""
    try:
        _call(client, "REPLICATE", primary)
    except redis.ResponseError:
        return False
    return True
