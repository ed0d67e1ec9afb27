"""Shared by the benchmarks: outcomes, processes, a store, CPU time and memory, calls of tools, figures, tables."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import msgspec
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from rich.table import Table

from coordinator.client import SyncFleet
from coordinator.store.embedded.binary import Binary
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.tool import AGENT_HEADER

console = Console(width=140, highlight=False)
_LISTEN = "0A"  # of /proc/net/tcp
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}
"""Headers of a request that calls a tool."""
PATIENCE = 60.0
"""Seconds that things may take which are not measured, on a busy machine."""
T = TypeVar("T")

# --- outcomes ---------------------------------------------------------------------------------------


class Missing(Exception):
    """A requirement of a benchmark is not installed; the message says which."""


class Failed(Exception):
    """The product or a rival answered an error, or other than expected; the message says what."""


class Missed(Failed):
    """A goal was missed; the message says which. Smallest rounds say nothing of speed, so it does not count in them."""


left_out: list[str] = []
"""The parts of benchmarks that were not run, with what they need."""


@contextlib.contextmanager
def optional(part: str) -> Iterator[None]:
    """A part of a benchmark that is left out where its requirements are not installed."""
    try:
        yield
    except Missing as missing:
        left_out.append(f"{part}: not run, {missing}")
        console.print(f"{left_out[-1]}\n", markup=False)


def until(ready: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Waits until something is true, and returns it.

    Raises:
        Failed: it is not in time.
    """
    end = time.monotonic() + seconds
    while not (found := ready()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)
    return found


# --- processes --------------------------------------------------------------------------------------


class Process(Protocol):
    """What is used of ``subprocess.Popen``."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Start(Protocol):
    """Starts a module with arguments, an environment, and files for its standard input, output and error output."""

    def __call__(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str], /, *standard: IO[Any]
    ) -> Process: ...


def _start(module: str, arguments: Sequence[str], env: Mapping[str, str], *standard: IO[Any]) -> Process:
    stdin, stdout, stderr = standard
    command = (sys.executable, "-m", module, *arguments)
    return subprocess.Popen(command, env=env, stdin=stdin, stdout=stdout, stderr=stderr)


start: Start = _start
"""How programs of this tree are started; tests have a way that takes less time."""


@contextlib.contextmanager
def running(
    module: str, *arguments: str, env: Mapping[str, str] | None = None, ready: bytes = b"", anew: bool = False
) -> Iterator[Process]:
    """A program that ends with the block.

    Args:
        ready: waits for a first line of output that contains this text.
        anew: whether it needs an interpreter of its own.

    Raises:
        Failed: another line came, or none.
    """
    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(open(os.devnull, "r+b"))
        errors = stack.enter_context(open(2, "wb", closefd=False))
        read, write = (stack.enter_context(open(end, mode)) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
        standard = nothing, write if ready else nothing, errors
        process = (_start if anew else start)(module, arguments, {**os.environ, **(env or {})}, *standard)
        write.close()
        stack.callback(_end, process)
        if ready and ready not in read.readline():
            raise Failed(f"it did not start: {module} {' '.join(arguments)}")
        yield process


def _end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def in_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Keeps a context open in the event loop of a thread until the block ends."""
    with (
        start_blocking_portal(backend_options={"use_uvloop": True}) as portal,
        portal.wrap_async_context_manager(context) as value,
    ):
        yield value


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def embedded(fsync: str = "always", binary: Binary | None = None) -> Iterator[EmbeddedServer]:
    """A separate store in a temporary folder."""
    with folder() as data_dir, EmbeddedServer(data_dir, fsync=fsync, binary=binary) as server:  # type: ignore[arg-type]
        yield server


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until_listening(port: int, processes: int = 1) -> None:
    """Waits until so many processes listen on a port.

    Raises:
        Failed: they do not in time.
    """

    def listening() -> bool:
        rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        return sum(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows) >= processes

    until(listening, f"{processes} processes listen on port {port}")


ADMITS_ALL = {"overload": {"store_target_ms": 5000, "least_limit": 1000, "most_limit": 1000, "project_share": 1.0}}
"""Limits of a front-end that serves all calls, also on a busy machine: these would be measured instead of it."""


class FrontEnd(NamedTuple):
    """A ``fleet serve``."""

    port: int
    pid: int
    """The process id of the front-end, or of the supervisor if there are several."""
    folder: Path
    """Its data directory."""


@contextlib.contextmanager
def front_end(
    redis_url: str, tree: Path | None = None, config: dict[str, Any] | None = None, **settings: object
) -> Iterator[FrontEnd]:
    """``fleet serve`` with one front-end, unless ``settings`` say otherwise; ready.

    Args:
        tree: a checkout to run it from; None: this one.
        config: settings, as in its file; other limits than ``ADMITS_ALL`` by the section of these.
        settings: other settings by their names; of those in a section, with the section's name: ``auth_mode``.
    """
    port = free_port()
    stated = {"redis_url": redis_url, "port": port, "frontends": 1, **settings}
    with _fleet("serve", ADMITS_ALL | (config or {}), stated, tree) as (pid, data_dir):
        yield FrontEnd(port, pid, data_dir)


@contextlib.contextmanager
def worker(redis_url: str, config: Mapping[str, Any]) -> Iterator[int]:
    """``fleet worker``, ready; yields its process id."""
    with _fleet("worker", config, {"redis_url": redis_url}) as (pid, _):
        yield pid


@contextlib.contextmanager
def _fleet(
    command: str, config: Mapping[str, Any] | None, settings: Mapping[str, object], tree: Path | None = None
) -> Iterator[tuple[int, Path]]:
    with folder() as data_dir:
        file = data_dir / "fleet.yaml"
        file.write_bytes(msgspec.json.encode(config or {}))
        stated = {"data_dir": data_dir, "log_level": "error", "config": file, **settings}
        env = {f"FLEET_{name.upper()}": str(value) for name, value in stated.items()}
        if tree is not None:  # before the current directory, for the processes that it starts, too
            env |= {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
        with running("coordinator", command, env=env, ready=b"ready", anew=tree is not None) as process:
            yield process.pid, data_dir


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A tree of another revision, which is removed at the end of the block."""
    with folder() as parent:
        tree = parent / "tree"
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


def in_turns(sides: Iterable[T], number: int) -> list[T]:
    """The sides of a comparison in the order of a round: every second round begins with the last one."""
    return list(sides) if number % 2 else [*reversed(list(sides))]


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


def children(pid: int) -> list[int]:
    """The processes that a process has started; none if it has ended."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def name_of(pid: int) -> str:
    """What a process is called."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def cpu_us(pid: int) -> float:
    """CPU time of the threads of a process in microseconds, with the scheduler's precision."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1000


def memory(pid: int, kind: str = "Private_") -> int:
    """Bytes of a process of the kinds of memory whose names begin so; by default those that it has to itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


# --- calls ------------------------------------------------------------------------------------------

_LAST_CHUNK = b"0\r\n\r\n"
_BATCH = 100
"""Items that one call creates."""


def url_of(port: int) -> str:
    """The URL of a front-end."""
    return f"http://127.0.0.1:{port}"


def metrics(port: int) -> dict[str, float]:
    """The metrics of a front-end: series as exposed -> value."""
    with urllib.request.urlopen(f"{url_of(port)}/metrics", timeout=30) as answer:  # noqa: S310
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


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


def head(path: str, host: str = "127.0.0.1", **headers: str) -> bytes:
    """The head of a request that calls a tool, up to the value of its last line, which is the length of the body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **headers}.items())
    return f"POST {path} HTTP/1.1\r\nhost: {host}\r\n{lines}content-length: ".encode()


def result_of(tool: str, answer: bytes) -> dict[str, Any]:
    """The result in the body of an answer of a tool.

    Raises:
        Failed: the call failed.
    """
    if not answer.startswith(b"{"):  # a stream of events
        answer = next(line[5:] for line in answer.splitlines() if line.startswith(b"data:") and line[5:].strip())
    result: dict[str, Any] | None = msgspec.json.decode(answer).get("result")
    if result is None or result.get("isError"):
        raise Failed(f"{tool} answered {answer[:500].decode(errors='replace')}")
    return result


def accepted(tool: str, content: Mapping[str, Any], *outcomes: str) -> Mapping[str, Any]:
    """The content of an answer, if all its elements have succeeded, or have one of these other outcomes.

    Raises:
        Failed: one has not.
    """
    elements = [*content.get("claimResults", ()), *content.get("releaseResults", ())]
    refused = [one for one in elements if one["outcome"] not in ("success", *outcomes)]
    results = content.get("results", ())
    refused += [one for one in results if isinstance(one, Mapping) and one.get("applied") is False]
    refused += content.get("failures", ())
    if refused:
        raise Failed(f"{tool} refused {refused[0]}")
    return content


class ToolCalls:
    """Calls of a front-end's tools over one keep-alive connection, one at a time, for measurements that must have as
    little of a client as possible; everything else calls by ``coordinator.client``.

    Args:
        agent: who calls, for the worker toolset; '': nobody is named.
    """

    def __init__(self, port: int, agent: str = "") -> None:
        self._headers = {AGENT_HEADER: agent} if agent else {}
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ids = itertools.count(1)

    def call(self, toolset: str, tool: str, **arguments: Any) -> tuple[float, dict[str, Any]]:
        """Seconds from request to answer, and the result.

        Raises:
            Failed: the call failed, or an element of it did.
        """
        params = {"name": tool, "arguments": arguments}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params})
        request = b"%b%d\r\n\r\n%b" % (head(f"/mcp/{toolset}", **self._headers), len(body), body)
        began = time.perf_counter()
        self._socket.sendall(request)
        answer = self._receive()
        seconds = time.perf_counter() - began
        result = result_of(tool, answer)
        accepted(tool, result.get("structuredContent", {}))
        return seconds, result

    def ask(self, toolset: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of the answer. Raises as ``call``."""
        content: dict[str, Any] = self.call(toolset, tool, **arguments)[1]["structuredContent"]
        return content

    def _receive(self) -> bytes:
        data = self._more()
        while b"\r\n\r\n" not in data:
            data += self._more()
        top, _, body = data.partition(b"\r\n\r\n")
        lengths = [line[15:] for line in top.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if not lengths:  # a stream of events, each in a chunk
            while not body.endswith(_LAST_CHUNK):
                body += self._more()
            return body
        parts, missing = [body], int(lengths[0]) - len(body)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        return b"".join(parts)

    def _more(self) -> bytes:
        if not (data := self._socket.recv(1 << 20)):
            raise Failed("the front-end closed the connection")
        return data

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


# --- figures ----------------------------------------------------------------------------------------


def percentile(values: Iterable[float], share: float) -> float:
    """The ``share`` quantile of the values; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def milliseconds(seconds: Iterable[float], share: float) -> float:
    """The ``share`` quantile of times in seconds."""
    return percentile(seconds, share) * 1000


def middle(rounds: Iterable[Any], figure: str) -> float:
    """The median of a figure of rounds."""
    return float(median(getattr(one, figure) for one in rounds))


def ratio(ours: Iterable[Any], theirs: Iterable[Any], figure: str = "real") -> float:
    """The median of the rounds' ratios of a figure; by default of the numbers themselves."""
    pairs = zip(ours, theirs, strict=True)
    return float(median(getattr(one, figure) / getattr(other, figure) for one, other in pairs))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console.print(made)
