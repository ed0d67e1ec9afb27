"""The server that the fleet starts for itself when it is given no Redis URL.

It is private: it listens on a Unix socket in the data directory (or on loopback, if that path is too long for a
socket, or has a blank or ``=`` in it) and always needs a password. The data is next to the socket, written to disk
before each answer.

Two locks protect a data directory. The process that starts servers holds ``owner.lock``; a second such process is
refused at once. The server itself holds ``server.lock``, because it inherits the open file. So if a server outlives
its owner for a moment, its files are still protected, and the next owner waits until it has gone.

The server ends with its owner, even if the owner is killed. (On systems other than Linux, the next owner shuts it
down.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Literal, Self, cast
from urllib.parse import quote

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.settings.paths import is_locked, is_of_another_user, make_own, own_file
from coordinator.store.embedded import binary as server_binary
from coordinator.store.errors import StoreError
from coordinator.store.link import clients
from coordinator.store.link.address import parse

_log = structlog.get_logger(__name__)

_UNREADABLE = re.compile(r"[\s=\x00-\x1f\x7f]")
"""Characters in the path of a socket that break RQ and other parsers of CLIENT LIST."""
SHARDS = "shards"
"""The folder with the servers of a cluster (``cluster.py``)."""
MAX_SOCKET_PATH = 100
"""Bytes; the kernel's limit is 104 to 108."""
READY_SECONDS = 300.0
"""How long a server may take to answer. While it says that it is loading its data, it may take as long as it needs."""
LEAVE_SECONDS = 10.0
"""How long a server may take to end after SIGTERM before it is killed."""
_LAST_WORDS_BYTES = 4096
_LOOK_SECONDS = 0.01
_PORT_ATTEMPTS = 5
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has ended already")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedError(StoreError):
    """The embedded server cannot be started."""


class DataDirBusy(EmbeddedError):
    """Another fleet uses the data directory."""


class DataDirUnusable(EmbeddedError):
    """The data directory cannot be made or written."""


class ServerFailed(EmbeddedError):
    """The server ended or did not become ready; the message has the last lines of its log."""


class EmbeddedServer:
    """One server on one data directory.

    Args:
        data_dir: created if it is missing; used by one server at a time.
        fsync: "always" writes to disk before each answer, "everysec" within a second.
        binary: the server to start; None: the first one that is found.
    """

    def __init__(
        self,
        data_dir: Path | str,
        fsync: Literal["always", "everysec"] = "always",
        *,
        binary: server_binary.Binary | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._fsync = fsync
        self._binary = binary
        self._owner_lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._url = ""
        self.served = False
        """Whether it has served before, so that there is data."""

    def start(self) -> str:
        """Starts the server, waits until it serves and returns its URL, which holds the password.

        May be called again after the server ended by itself; returns at once while it runs.

        Raises:
            DataDirBusy: another fleet uses the directory.
            DataDirUnusable: it cannot be made or written, or its earlier data is gone.
            ServerMissing, StoreTooOld: no binary that can be used.
            ServerFailed: the server ended before it served.
        """
        if self._process is not None and self._process.poll() is None:
            return self._url
        binary = self._binary or server_binary.find()
        try:
            self._own()
            for attempts_left in reversed(range(_PORT_ATTEMPTS)):
                try:
                    self._launch(binary)
                    break
                except _PortTaken:
                    if not attempts_left:
                        raise
        except OSError as error:
            self.stop()
            raise DataDirUnusable(_unusable(self.data_dir, error)) from None
        except BaseException:
            self.stop()
            raise
        self.served = True
        return self._url

    def stop(self, timeout: float = LEAVE_SECONDS) -> None:
        """Ends the server (SIGTERM, and SIGKILL after ``timeout`` seconds) and frees the directory."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._ended.set()
        if self._owner_lock is not None:
            self._owner_lock.close()
            self._owner_lock = None

    @property
    def url(self) -> str:
        """The server's URL, password included: show it only through ``settings.redacted``."""
        return self._url

    @property
    def log(self) -> Path:
        return self.data_dir / "redis.log"

    def last_words(self, after: int = 0) -> str:
        """The last three lines of the server's log, of what follows its first ``after`` bytes."""
        with contextlib.suppress(OSError), open(self.log, "rb") as log:
            log.seek(max(after, log.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
            said = log.read().decode(errors="replace").splitlines()[-3:]
            if words := " | ".join(line.strip() for line in said if line.strip()):
                return words
        return "it logged nothing"

    @property
    def pid(self) -> int | None:
        """The server's process id, None when there is none."""
        return self._process.pid if self._process is not None else None

    def poll(self) -> int | None:
        """The server's exit status if it has ended by itself; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def sign_of_life(self) -> Literal["ready", "loading"] | None:
        """The server's answer to a ping within a second, if any; an error reply, such as BUSY, counts, too."""
        client = _client(self._url)
        try:
            client.ping()
        except redis.BusyLoadingError:
            return "loading"
        except (redis.ResponseError, redis.AuthenticationError):
            return "ready"
        except (redis.RedisError, OSError) as error:
            return "ready" if "max number of clients" in str(error) else None
        finally:
            client.close()
        return "ready"

    def kill(self) -> None:
        """Kills a hung server. It can be started again."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _own(self) -> None:
        """Creates the directory and takes its owner lock."""
        data = self.data_dir / "redis"
        if self.served and not (data.is_dir() and any(data.iterdir())):
            # An unmounted volume, for example: with an empty store, everything acknowledged would seem lost.
            raise DataDirUnusable(f"the data in {data} is gone: restore it, or start again with an empty store")
        if (self.data_dir / SHARDS).is_dir():
            shards = sum(1 for _ in (self.data_dir / SHARDS).iterdir())
            raise DataDirUnusable(
                f"the data directory {self.data_dir} was made with shards {shards}: the setting cannot be changed"
            )
        make_own(self.data_dir)
        data.mkdir(mode=0o700, exist_ok=True)
        self._owner_lock = self._owner_lock or owner_lock(self.data_dir)

    def _launch(self, binary: server_binary.Binary) -> None:
        password = password_of(self.data_dir)
        with self._server_lock() as server_lock:
            endpoint, settings = self.endpoint()
            self._url = _url(endpoint, password)
            said_before = self.log.stat().st_size if self.log.exists() else 0
            self._process = process = self._spawn(binary, server_lock.fileno())
        # Settings go through stdin, because every user can read a command line. If the server has ended already,
        # _await_ready reports it.
        with contextlib.suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as stdin:
            stdin.write(self.config(settings, password).encode())
        self._await_ready(process, said_before)

    def _server_lock(self) -> IO[str]:
        """The lock that the server will hold; waits until an earlier server has gone."""
        lock = open(self.data_dir / "server.lock", "a+", encoding="ascii", opener=own_file)  # noqa: SIM115 (kept open)
        deadline = time.monotonic() + LEAVE_SECONDS
        asked = False
        while not _try_lock(lock):
            if not asked:
                asked = True
                shut_down(self.data_dir)
            if time.monotonic() > deadline:
                lock.close()
                raise DataDirBusy(
                    f"the data directory {self.data_dir} is in use by an earlier server that does not end: "
                    "stop that one or choose another directory"
                )
            time.sleep(_LOOK_SECONDS)
        return lock

    def endpoint(self) -> tuple[str | int, list[tuple[str, str]]]:
        """A socket path or a free port, and the settings for it."""
        path = self.data_dir / "redis.sock"
        port_file = self.data_dir / "redis.port"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH and not _UNREADABLE.search(str(path)):
            port_file.unlink(missing_ok=True)
            return str(path), [("port", "0"), ("unixsocket", str(path)), ("unixsocketperm", "700")]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        port_file.write_text(f"{port}\n", encoding="ascii")
        return port, [("port", str(port)), ("bind", "127.0.0.1")]

    def config(self, settings: list[tuple[str, str]], password: str) -> str:
        """The server's configuration file.

        Args:
            settings: those of the endpoint.
        """
        settings = [
            *settings,
            ("requirepass", password),
            ("dir", str(self.data_dir / "redis")),
            ("logfile", str(self.log)),
            ("daemonize", "no"),
            ("appendonly", "yes"),
            ("appendfsync", self._fsync),
            ("aof-use-rdb-preamble", "yes"),
            ("save", ""),
            ("maxmemory-policy", "noeviction"),
            # Keeps items in the compact form, which saves a third of their memory.
            ("hash-max-listpack-value", "512"),
            ("hash-max-listpack-entries", "128"),
        ]
        return "".join(f"{name} {_quoted(value)}\n" for name, value in settings)

    def _spawn(self, binary: server_binary.Binary, lock: int) -> subprocess.Popen[bytes]:
        """Starts the server from a thread that lives as long as the server.

        The kernel takes the thread for the parent: the server gets its parent-death signal when the thread ends.
        """
        self._ended.set()
        ended = self._ended = threading.Event()
        started = threading.Event()
        result: list[subprocess.Popen[bytes] | OSError] = []

        def parent() -> None:
            try:
                with open(self.log, "ab") as output:
                    result.append(
                        subprocess.Popen(
                            dying_with_parent([str(binary.path), "-"]),
                            stdin=subprocess.PIPE,
                            stdout=output,
                            stderr=output,
                            pass_fds=(lock,),
                            env=binary.environment(),
                            umask=0o077,
                            start_new_session=True,  # Ctrl-C is for the owner, which stops the server last
                        )
                    )
            except OSError as error:
                result.append(error)
            started.set()
            ended.wait()

        try:
            threading.Thread(target=parent, name="embedded-redis-parent", daemon=True).start()
        except RuntimeError as error:
            # The machine is out of threads or memory.
            raise ServerFailed(f"{binary.path} does not start: {error}") from None
        started.wait()
        if isinstance(result[0], OSError):
            raise ServerFailed(f"{binary.path} does not start: {result[0].strerror}")
        return result[0]

    def _await_ready(self, process: subprocess.Popen[bytes], said_before: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        pause, loading = 0.005, False
        while (state := state_of(self._url)) != "ready":
            if state == "loading":
                deadline = time.monotonic() + READY_SECONDS
                if not loading:
                    loading = True
                    _log.info("the embedded store is reading its data", directory=str(self.data_dir))
            try:
                status = process.wait(pause)
            except subprocess.TimeoutExpired:
                pause = min(pause * 1.5, 0.1)
                if time.monotonic() > deadline:
                    raise ServerFailed(f"the embedded server is not ready after {READY_SECONDS:.0f} s") from None
                continue
            last = self.last_words(said_before)
            kind = _PortTaken if "ddress already in use" in last else ServerFailed
            raise kind(f"the embedded server ended with status {status}: {last} (see {self.log})")


def owner_lock(directory: Path) -> IO[str]:
    """Locks a data directory for the process that starts servers on it; closing the file ends that.

    Raises:
        DataDirBusy: another fleet uses the directory.
    """
    lock = open(directory / "owner.lock", "a+", encoding="ascii", opener=own_file)  # noqa: SIM115 (kept open)
    owned = _try_lock(lock)
    if not owned:  # it may just be looked at
        time.sleep(_LOOK_SECONDS)
        owned = _try_lock(lock)
    if not owned:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise DataDirBusy(
            f"the data directory {directory} is in use by another fleet"
            f"{f' (process {owner})' if owner else ''}: stop that one or choose another directory"
        )
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


class _PortTaken(ServerFailed):
    """Another process took the port after we chose it and before the server started."""


def find_running(data_dir: Path | str) -> str | None:
    """The URL (with password) of the server that runs on a data directory, or None."""
    url = known_url(data_dir)
    return url if url is not None and state_of(url) is not None else None


def orphaned(data_dir: Path | str) -> list[Path]:
    """The directories, of a data directory, with servers that run although who has started them is gone."""
    directory = Path(data_dir).absolute()
    if is_of_another_user(directory) or is_locked(directory / "owner.lock"):
        return []
    locks = (directory / "server.lock", *directory.glob(f"{SHARDS}/*/server.lock"))
    return [one.parent for one in locks if is_locked(one)]


def known_url(data_dir: Path | str) -> str | None:
    """The URL (with password) of the server on a data directory, whether it runs or not; None: it has none yet.

    Of a cluster (``cluster.py``), with all of its nodes.
    """
    directory = Path(data_dir).absolute()
    if is_of_another_user(directory):  # who could name any server here
        return None
    try:
        nodes = sorted((directory / SHARDS).glob("*/redis.port"), key=lambda file: int(file.parent.name))
        if nodes:
            secret = quote((directory / "redis.password").read_text(encoding="ascii").strip(), safe="")
            ports = [file.read_text(encoding="ascii").split()[0] for file in nodes]
            return f"redis+cluster://:{secret}@{','.join(f'127.0.0.1:{port}' for port in ports)}"
        password = (directory / "redis.password").read_text(encoding="ascii").strip()
        port_file = directory / "redis.port"
        port = port_file.read_text(encoding="ascii").strip() if port_file.exists() else ""
    except (OSError, UnicodeDecodeError):
        return None
    if not password or (port and not port.isdigit()):
        return None
    return _url(int(port) if port else str(directory / "redis.sock"), password)


def _url(endpoint: str | int, password: str) -> str:
    secret = quote(password, safe="")
    if isinstance(endpoint, int):
        return f"redis://:{secret}@127.0.0.1:{endpoint}/0"
    return f"unix://:{secret}@{quote(endpoint)}"


def _client(url: str) -> redis.Redis:
    return clients.client(parse(url), socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0))


def state_of(url: str) -> Literal["ready", "loading"] | None:
    client = _client(url)
    try:
        client.ping()
    except redis.BusyLoadingError:
        return "loading"
    except (redis.RedisError, OSError):
        return None
    finally:
        client.close()
    return "ready"


def shut_down(directory: Path) -> None:
    """Asks a server that has lost its owner to save and end."""
    url = known_url(directory)
    if url is not None:
        # Errors do not matter: the lock shows whether the server has ended.
        with contextlib.closing(_client(url)) as client, contextlib.suppress(redis.RedisError, OSError):
            client.shutdown()


def password_of(directory: Path, given: str = "") -> str:
    """The directory's password, made once and readable by its owner only.

    Args:
        given: what it is to be; empty: the one that it has, or a new one.
    """
    path = directory / "redis.password"
    try:
        kept = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):  # missing or damaged; no server runs now, so make a new one
        kept = ""
    if kept and given in ("", kept):
        path.chmod(0o600)
        return kept
    password = given or secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{password}\n")
    return password


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _quoted(value: str) -> str:
    """A value, whatever bytes it has, in the syntax of the server's configuration."""
    plain = bytes(byte for byte in range(0x20, 0x7F) if byte not in b'"\\')
    return '"' + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(value)) + '"'


def _unusable(directory: Path, error: OSError) -> str:
    at = f" ({error.filename})" if error.filename and str(error.filename) != str(directory) else ""
    return f"the data directory {directory} cannot be used: {error.strerror or error}{at}"


def dying_with_parent(command: list[str]) -> list[str]:
    """The command, wrapped so that the kernel sends it SIGTERM when its parent dies (Linux only).

    A small program does this before it executes the command, because running code between fork and exec is unsafe in
    a process with threads.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *command]
