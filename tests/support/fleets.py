"""Runs real ``fleet`` commands, with a minimal HTTP client."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import msgspec

from coordinator.processes.fleetfile import Fleet, read_fleet
from tests.support.template import Forked, template
from tests.support.wait import process_alive, wait_until_sync

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 120.0
MCP_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}
"""Headers of a request that calls a tool."""
PATIENT = {"FLEET_REDIS_TIMEOUT_MS": "4500", "FLEET_REQUEST_DEADLINE_MS": "5000"}
"""Long enough for a busy machine, and below the shortest drain of a test."""
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ids = itertools.count(1)


def environment(**more: str) -> dict[str, str]:
    """The environment without settings of this machine, and with a generous store timeout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    return {**kept, "PYTHONPATH": str(ROOT), **PATIENT, **more}


def fleet_command(*arguments: str, timeout: float = START_SECONDS, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a ``fleet`` command until it exits."""
    with open(os.devnull, "rb") as nothing, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        command = started(arguments, environment(**env), nothing, out, err)
        try:
            code = command.wait(timeout)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def started(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *standard: IO[Any],
    prefix: Sequence[str] = (),
    forked: bool = True,
    module: str = "coordinator",
) -> subprocess.Popen[bytes] | Forked:
    """Starts a ``fleet`` command, or another ``module`` with a function ``main``, as a fork of the template if it can.

    Args:
        standard: files for its standard input, output and error output.
        prefix: the command line before that of a new interpreter.
        forked: whether it may be a fork.
    """
    if forked and template.serves(env):
        words = arguments if module == "coordinator" else ("-m", module, *arguments)
        return template.start(words, env, *standard)
    stdin, stdout, stderr = standard
    command = [*prefix, sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env)


def fork_line(*arguments: str) -> list[str]:
    """The command line by which a program starts a ``fleet`` command, as a fork of the template if it can."""
    start = template.command() if sys.platform == "linux" else [sys.executable, "-m", "coordinator"]
    return [*start, *arguments]


def program_line(module: str, *arguments: str) -> list[str]:
    """The same for a program of the tests: a module with a function ``main`` that uses most of what a command does."""
    start = template.command() if sys.platform == "linux" else [sys.executable]
    return [*start, "-m", module, *arguments]


class RunningCommand:
    """A long-running ``fleet`` command.

    Args:
        directory: the folder for its output.
    """

    prefix: Sequence[str] = ()
    """The command line before ``fleet``."""
    forked = True
    """Whether it may be a fork, whose own command line is not shown by the system."""

    def __init__(self, directory: Path, *arguments: str, **env: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._out, self._err = directory / "stdout", directory / "stderr"
        with open(os.devnull, "rb") as nothing, open(self._out, "wb") as out, open(self._err, "wb") as err:
            forked = self.forked and not self.prefix
            self.process = started(arguments, environment(**env), nothing, out, err, prefix=self.prefix, forked=forked)

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def logs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stderr.splitlines() if line.endswith("}")]

    def logged(self, event: str, **more: object) -> bool:
        """Whether such a line was logged."""
        return any(more.items() <= line.items() for line in self.logs if line["event"] == event)

    def wait_logged(self, event: str, **more: object) -> None:
        """Waits until such a line is logged."""
        wait_until_sync(lambda: self.logged(event, **more), what=f"the line {event!r} with {more}")

    def wait_ready(self, seconds: float = START_SECONDS) -> str:
        """Waits for the ready line and returns it."""

        def line() -> str | None:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.stderr}"
            *whole, _ = self.stdout.split("\n")  # the last one may still be written
            return next((line for line in whole if "ready" in line), None)

        return wait_until_sync(line, seconds, "the ready line") or ""

    def end(self, number: int = signal.SIGTERM, timeout: float = 80.0) -> int:
        """Sends a signal and returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clean_up()

    def clean_up(self) -> None:
        """Leaves nothing behind, whatever the test's outcome."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(80)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class RunningFleet(RunningCommand):
    """``fleet up`` on its own data directory."""

    def __init__(self, data_dir: Path, *arguments: str, **env: str) -> None:
        self.data_dir = data_dir
        command = ("up", "--data-dir", str(data_dir))
        super().__init__(data_dir.with_name(data_dir.name + "-output"), *command, *arguments, **env)

    def clean_up(self) -> None:
        """The same without the drain, which a second signal ends."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        super().clean_up()

    @property
    def state(self) -> Fleet:
        fleet = read_fleet(self.data_dir)
        assert fleet is not None, self.stderr
        return fleet

    @property
    def port(self) -> int:
        return int(self.state.base_url.rsplit(":", 1)[1])

    @property
    def pids(self) -> list[int]:
        """Process ids of all its processes, including the store but not the supervisor."""
        state = self.state
        return [one.pid for one in state.processes if one.pid] + ([state.store_pid] if state.store_pid else [])

    def pid(self, slot: str) -> int | None:
        return next(one.pid for one in self.state.processes if one.slot == slot)

    def all_gone(self, pids: list[int]) -> bool:
        return not any(process_alive(pid) for pid in pids)


class Http:
    """One keep-alive connection to a fleet."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def get(self, path: str) -> tuple[int, bytes]:
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        return response.status, response.read()

    def call(self, tool: str, **arguments: Any) -> Any:
        """The structured result of a tool call."""
        found, refused = self.answer(tool, arguments)
        assert not refused, found
        return found

    def answer(self, tool: str, arguments: dict[str, Any]) -> tuple[Any, bool]:
        """The structured content of a tool call, and whether the call was refused."""
        self.connection.request("POST", "/mcp/items", call_body(tool, arguments), MCP_HEADERS)
        response = self.connection.getresponse()
        answer = msgspec.json.decode(response.read())
        assert response.status == 200, answer
        return answer["result"]["structuredContent"], answer["result"].get("isError", False)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call_body(tool: str, arguments: dict[str, Any]) -> bytes:
    """The body of a tool call."""
    message = {
        "jsonrpc": "2.0",
        "id": next(_ids),
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    return msgspec.json.encode(message)


def call_head(length: int) -> bytes:
    """The head of the request that carries it."""
    lines = [f"{name}: {value}" for name, value in {"host": "127.0.0.1", **MCP_HEADERS}.items()]
    return "\r\n".join(["POST /mcp/items HTTP/1.1", *lines, f"content-length: {length}", "", ""]).encode()


def once(port: int, path: str) -> tuple[int, bytes]:
    """A request on a new connection."""
    with Http(port) as client:
        return client.get(path)


def scrape(port: int) -> dict[str, float]:
    """``name{label=value,...}`` -> value."""
    status, text = once(port, "/metrics")
    assert status == 200
    return samples(text)


def samples(text: bytes) -> dict[str, float]:
    """The samples of an exposition.

    prometheus-client's parser, which has the same result (``metrics/test_cells.py``), takes five times as long.
    """
    found = {}
    for name, labelled, value in _SAMPLE.findall(text.decode()):
        labels = ",".join(f"{label}={said}" for label, said in sorted(_LABEL.findall(labelled)))
        found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


class NewCommand(RunningCommand):
    """The same in an interpreter of its own, with the command line that users see."""

    forked = False


class NewFleet(RunningFleet):
    """The same in an interpreter of its own."""

    forked = False
