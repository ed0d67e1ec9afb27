"""A primary, its replica and Sentinels over them: real processes of the server's own binary."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import redis

from coordinator.store.embedded import binary
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

PASSWORD = "of the servers"
SENTINEL_PASSWORD = "of the Sentinels"
SERVICE = "fleet"
_DOWN_MS = 1000
# The period of the Sentinels' pings and hellos in ms. They wait for four periods before they make a former primary a
# replica, which is eight seconds by default.
_ROUND_MS = 500


class Watched:
    """Two servers, and two Sentinels that agree on the primary."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._binary = binary.find().path
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.servers = (free_port(), free_port())
        self.sentinels = (free_port(), free_port())

    def start(self) -> None:
        """Starts all of them; returns when the Sentinels know the replica and each other."""
        first, second = self.servers
        self._start_server(first)
        self._start_server(second, "--replicaof", f"127.0.0.1 {first}")
        wait_until_sync(lambda: self._follows(second), what="the replica")
        for port in self.sentinels:
            self._start_sentinel(port, first)
        for port in self.sentinels:
            wait_until_sync(partial(self._knows_all, port), what="what a Sentinel has to know")

    @property
    def url(self) -> str:
        """The URL of the current primary. Its first Sentinel is unreachable."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in (1, *self.sentinels))
        password, theirs = (word.replace(" ", "%20") for word in (PASSWORD, SENTINEL_PASSWORD))
        return f"redis+sentinel://:{password}@{hosts}/{SERVICE}/0?sentinel_password={theirs}"

    def primary(self) -> int:
        """The port of the server that the first Sentinel calls the primary."""
        return self._named_by(self.sentinels[0])

    def named(self) -> set[int]:
        """The ports of the servers that the Sentinels call the primary."""
        return {self._named_by(port) for port in self.sentinels}

    def leave_former_primary(self) -> None:
        """Lets the Sentinels wait before they make a former primary a replica, as they do for seconds by default."""
        for port in self.sentinels:
            with self._client(port, SENTINEL_PASSWORD) as sentinel:
                sentinel.execute_command("SENTINEL", "DEBUG", "publish-period", 60_000)

    def replicated(self) -> bool:
        """Whether the replica has all earlier writes."""
        with self._client(self.primary(), PASSWORD) as server:
            return int(server.wait(1, 1000)) == 1

    def count(self, port: int, key: bytes) -> int:
        """The number in a key of a server."""
        with self._client(port, PASSWORD) as server:
            return int(server.get(key) or 0)  # type: ignore[arg-type, unused-ignore]

    def role(self, port: int) -> str:
        """The role of a server: ``master`` or ``slave``."""
        with self._client(port, PASSWORD) as server:
            return str(server.role()[0].decode())

    def pid(self, port: int) -> int:
        """The process that listens on a port."""
        return self._processes[port].pid

    def kill(self, port: int) -> None:
        """Kills a server."""
        self._processes[port].kill()
        self._processes[port].wait()

    def cut_off_replica(self) -> None:
        """Lets the replica hear nothing of its primary any more, until the Sentinels notice, after some seconds."""
        replica = next(port for port in self.servers if port != self.primary())
        with self._client(replica, PASSWORD) as server:
            server.execute_command("REPLICAOF", "127.0.0.1", "1")

    def switch(self) -> None:
        """Makes the Sentinels fail over, as operators do for maintenance."""
        with self._client(self.sentinels[0], SENTINEL_PASSWORD) as sentinel:
            sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)

    def stop(self) -> None:
        """Stops all processes."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _named_by(self, port: int) -> int:
        with self._client(port, SENTINEL_PASSWORD) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name(SERVICE)[1])

    def _start_server(self, port: int, *options: str) -> None:
        directory = self._directory / str(port)
        directory.mkdir()
        words = {"port": port, "bind": "127.0.0.1", "save": "", "dir": directory, "logfile": directory / "log",
                 "requirepass": PASSWORD, "primaryauth": PASSWORD, "repl-diskless-sync-delay": 0}  # fmt: skip
        self._run(port, *(word for name, value in words.items() for word in (f"--{name}", str(value))), *options)

    def _start_sentinel(self, port: int, primary: int) -> None:
        config = self._directory / f"{port}.conf"
        config.write_text(
            f'port {port}\nbind 127.0.0.1\nlogfile {config}.log\nrequirepass "{SENTINEL_PASSWORD}"\n'
            f'sentinel sentinel-pass "{SENTINEL_PASSWORD}"\n'
            f'sentinel monitor {SERVICE} 127.0.0.1 {primary} 2\nsentinel auth-pass {SERVICE} "{PASSWORD}"\n'
            f"sentinel down-after-milliseconds {SERVICE} {_DOWN_MS}\nsentinel failover-timeout {SERVICE} 5000\n"
        )
        self._run(port, str(config), "--sentinel")
        wait_until_sync(partial(self._hurried, port), what="a Sentinel")

    def _run(self, port: int, *words: str) -> None:
        self._processes[port] = subprocess.Popen([self._binary, *words], stdout=subprocess.DEVNULL)

    def _check(self, port: int) -> None:
        """Fails if the process that is to listen on a port has ended."""
        if self._processes[port].poll() is not None:
            logs = [
                path.read_text() for path in (self._directory / str(port) / "log", self._log(port)) if path.exists()
            ]
            raise AssertionError(f"the server of port {port} has ended: {''.join(logs)[-2000:]}")

    def _log(self, port: int) -> Path:
        return self._directory / f"{port}.conf.log"

    def _follows(self, port: int) -> bool:
        self._check(port)
        try:
            with self._client(port, PASSWORD) as server:
                facts: Any = server.info("replication")
        except redis.exceptions.ConnectionError:
            return False
        return bool(facts["master_link_status"] == "up")

    def _hurried(self, port: int) -> bool:
        """Whether the Sentinel answers; shortens its period."""
        self._check(port)
        try:
            with self._client(port, SENTINEL_PASSWORD) as sentinel:
                sentinel.execute_command("SENTINEL", "DEBUG", "info-period", _ROUND_MS, "publish-period", _ROUND_MS)
        except redis.exceptions.ConnectionError:
            return False
        return True

    def _knows_all(self, port: int) -> bool:
        for one in self._processes:
            self._check(one)
        try:
            with self._client(port, SENTINEL_PASSWORD) as sentinel:
                state: Any = sentinel.sentinel_master(SERVICE)
                replicas: Any = sentinel.sentinel_slaves(SERVICE)
        except redis.exceptions.ConnectionError:
            return False
        up = [one for one in replicas if one["master-link-status"] == "ok"]
        return state["num-other-sentinels"] == len(self.sentinels) - 1 and len(up) == 1

    @staticmethod
    def _client(port: int, password: str) -> redis.Redis:
        return redis.Redis(port=port, password=password, socket_timeout=5)


@contextlib.contextmanager
def watched(make_directory: Callable[[str], Path]) -> Iterator[Watched]:
    """Starts them, and stops them afterwards."""
    found = Watched(make_directory("sentinel"))
    try:
        found.start()
        yield found
    finally:
        found.stop()
