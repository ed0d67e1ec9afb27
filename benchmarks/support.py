"""Shared by the benchmarks: a store, processes, their CPU time, calls of tools, wrk, tables."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from rich.table import Table

from coordinator.client import SyncFleet
from coordinator.store.embedded.binary import Binary
from coordinator.store.embedded.server import EmbeddedServer

console = Console(width=140, highlight=False)
_TICK = os.sysconf("SC_CLK_TCK")
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}
"""Headers of a request that calls a tool."""
T = TypeVar("T")


@contextlib.contextmanager
def in_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Keeps a context open in the event loop of a thread until the block ends."""
    with (
        start_blocking_portal(backend_options={"use_uvloop": True}) as portal,
        portal.wrap_async_context_manager(context) as value,
    ):
        yield value


@contextlib.contextmanager
def embedded(fsync: str = "always", binary: Binary | None = None) -> Iterator[EmbeddedServer]:
    """A separate store in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        server = EmbeddedServer(Path(folder), fsync=fsync, binary=binary)  # type: ignore[arg-type]
        server.start()
        try:
            yield server
        finally:
            server.stop()


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    *command: str, env: dict[str, str] | None = None, until: bytes = b"", cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block.

    Args:
        until: waits for a first line of output that contains this text.

    Raises:
        RuntimeError: another line came, or none.
    """
    stdout = subprocess.PIPE if until else subprocess.DEVNULL
    with subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=stdout, cwd=cwd) as process:
        try:
            if process.stdout is not None and until not in process.stdout.readline():
                raise RuntimeError(f"it did not start: {' '.join(command)}")
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()


def python(*arguments: str) -> tuple[str, ...]:
    """A command of this interpreter."""
    return (sys.executable, *arguments)


def until_listening(port: int, seconds: float = 90) -> None:
    """Waits until the port answers HTTP.

    Raises:
        TimeoutError: it does not in time.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nothing answers on port {port}")


class FrontEnd(NamedTuple):
    """A ``fleet serve``."""

    port: int
    pid: int
    """The process id of the front-end, or of the supervisor if there are several."""
    folder: Path
    """Its data directory."""


@contextlib.contextmanager
def front_end(redis_url: str, tree: Path | None = None, **settings: object) -> Iterator[FrontEnd]:
    """``fleet serve`` with one front-end, unless ``settings`` say otherwise; ready.

    Args:
        tree: a checkout to run it from; None: this one.
        settings: other settings by their names; of those in a section, with the section's name: ``auth_mode``.
    """
    port = free_port()
    stated = {"redis_url": redis_url, "port": port, "frontends": 1, **settings}
    with _fleet("serve", stated, tree) as (pid, folder):
        yield FrontEnd(port, pid, folder)


@contextlib.contextmanager
def worker(redis_url: str, config: Path) -> Iterator[int]:
    """``fleet worker``, ready; yields its process id."""
    with _fleet("worker", {"redis_url": redis_url, "config": config}) as (pid, _):
        yield pid


@contextlib.contextmanager
def _fleet(command: str, settings: dict[str, object], tree: Path | None = None) -> Iterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        stated = {"data_dir": folder, "log_level": "error", **settings}
        env = {f"FLEET_{name.upper()}": str(value) for name, value in stated.items()}
        with running(*python("-m", "coordinator", command), env=env, until=b"ready", cwd=tree) as process:
            yield process.pid, Path(folder)


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A tree of another revision, which is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def revision_in(given: list[str]) -> str | None:
    """Takes ``--against REV`` out of arguments."""
    if "--against" not in given:
        return None
    at = given.index("--against")
    revision = given[at + 1]
    del given[at : at + 2]
    return revision


@contextlib.contextmanager
def core_kept_free() -> Iterator[Callable[[int], None]]:
    """Reserves one core for the measured processes: all other processes of the block run on the others.

    Yields:
        A function that pins a process to that core; on a machine with one core it does nothing.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        yield lambda pid: None
        return

    def give(pid: int) -> None:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cores[:1])

    os.sched_setaffinity(0, cores[1:])
    try:
        yield give
    finally:
        os.sched_setaffinity(0, cores)


_BATCH = 100
"""Items that one call creates."""


def url_of(port: int) -> str:
    """The URL of a front-end."""
    return f"http://127.0.0.1:{port}"


def add_items(port: int, count: int, pairs: bool = False, project: str = "default", **fields: Any) -> list[str]:
    """Creates so many items with these fields; with ``pairs`` every second one depends on the one before it.

    Returns:
        Their ids.
    """
    ids = []
    with SyncFleet(url_of(port), token="", project=project) as fleet:
        for first in range(0, count, _BATCH):
            batch = [{"title": f"item {n}", **fields} for n in range(first, min(first + _BATCH, count))]
            made = fleet.call("manage_items", {"operation": "create", "items": batch})["items"]
            edges = [
                {"fromItemId": one["id"], "toItemId": other["id"]}
                for one, other in zip(made[::2], made[1::2], strict=False)
            ]
            if pairs:
                fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})
            ids += [one["id"] for one in made]
    return ids


class ToolCalls:
    """Calls of a front-end's tools over one keep-alive connection, one at a time, for measurements that must have as
    little of a client as possible; everything else calls by ``coordinator.client``."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._ids = itertools.count(1)

    def call(self, toolset: str, tool: str, **arguments: Any) -> tuple[float, dict[str, Any]]:
        """Seconds from request to answer, and the result.

        Raises:
            RuntimeError: the call has failed.
        """
        params = {"name": tool, "arguments": arguments}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params})
        began = time.perf_counter()
        self._connection.request("POST", f"/mcp/{toolset}", body, HEADERS)
        answer = self._connection.getresponse().read()
        seconds = time.perf_counter() - began
        if not answer.startswith(b"{"):  # a stream of events
            answer = next(line[5:] for line in answer.splitlines() if line.startswith(b"data:") and line[5:].strip())
        result: dict[str, Any] = msgspec.json.decode(answer)["result"]
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result['content'][0]['text']}")
        return seconds, result

    def ask(self, toolset: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of the answer. Raises as ``call``."""
        content: dict[str, Any] = self.call(toolset, tool, **arguments)[1]["structuredContent"]
        return content

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def cpu_us(pid: int) -> float:
    """CPU time of the threads of a process in microseconds, with the scheduler's precision."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def private_bytes(pid: int) -> int:
    """Bytes of memory that a process has to itself."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Private_"))


class Missing(Exception):
    """A requirement of a benchmark is not installed; the message says which."""


class Failed(Exception):
    """A benchmark that also checks its results has failed; the message says why."""


class Load(NamedTuple):
    """The results of one run of wrk."""

    per_second: float
    p99_ms: float
    requests: int
    errors: int


def wrk(url: str, script: Path, connections: int, seconds: float) -> Load:
    """Runs wrk with a Lua script.

    Raises:
        Missing: wrk is not installed.
    """
    if shutil.which("wrk") is None:
        raise Missing("wrk is not installed (Debian: apt-get install wrk)")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency", "-s", str(script), url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
    total = re.search(r"(\d+) requests in", text)
    if rate is None or p99 is None or total is None:
        raise RuntimeError(f"wrk said: {text}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    scale = {"us": 0.001, "ms": 1.0, "s": 1000.0}[p99[2]]
    return Load(float(rate[1]), float(p99[1]) * scale, int(total[1]), int(bad[1]) if bad else 0)


def percentile(values: Iterable[float], share: float) -> float:
    """The ``share`` quantile of the values; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console.print(made)
