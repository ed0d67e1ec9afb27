"""Runs commands: without a shell, with a small environment and limited output. Ends their whole process group."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec

from coordinator.settings.sections.connections import Connection, Interpolator, hidden, hidden_in
from coordinator.steps.model import Outcome, Success
from coordinator.toolsets.gateway.rules.calls import CliCall
from workers.children.guard import ProcessGroup
from workers.connections.start_failures import start_problem
from workers.gateway.failures import misconfigured, permanent, unreachable

MAX_STDOUT = 1024 * 1024
MAX_STDERR = 64 * 1024
"""Most bytes that are kept; the rest is read and dropped."""
GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL to a process group, and how long leftover processes may hold its pipes."""
KEY = "IDEMPOTENCY_KEY"
"""The environment variable with the idempotency key."""

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What a command inherits from the worker's own environment, besides the ``LC_`` variables."""


class _Output(NamedTuple):
    """What a command wrote to one of its pipes."""

    text: str
    dropped: int
    """How many bytes were dropped."""


async def run_command(call: CliCall, connection: Connection | None, environment: Mapping[str, str]) -> Outcome:
    """Runs a command to its end. If this is cancelled, the command and all its child processes are killed.

    Args:
        connection: a connection of kind cli; None if the call names the command itself.
        environment: the values of ``${NAME}``.
    """
    filled = Interpolator(environment)
    try:
        argv, env, directory = _prepared(call, connection, environment, filled)
    except KeyError as missing:
        return misconfigured(f"the environment variable {missing.args[0]} is not set")
    try:
        group = ProcessGroup(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=directory,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        return unreachable(start_problem(error, argv[0], directory))
    try:
        return await _result(group, call.strict, call.secrets | filled.secrets)
    finally:
        group.release()


def _prepared(
    call: CliCall, connection: Connection | None, environment: Mapping[str, str], filled: Interpolator
) -> tuple[list[str], dict[str, str], str | None]:
    """The argument vector, the environment and the working directory of a command.

    Raises:
        KeyError: a variable that the connection refers to is not set.
    """
    command, directory, stated = call.command, call.working_directory, call.env
    if connection is not None:
        command = filled.place(connection.command)
        directory = directory or filled.place(connection.working_directory)
        stated = {**{name: filled(value) for name, value in connection.env.items()}, **stated}
    env = {name: environment[name] for name in _INHERITED if name in environment}
    env |= {name: value for name, value in environment.items() if name.startswith("LC_")}
    env |= stated
    if call.key:
        env[KEY] = call.key
    return [command, *call.args], env, directory or None


async def _result(group: ProcessGroup, strict: bool, secrets: AbstractSet[str]) -> Outcome:
    """Waits for the end of a command and returns its outcome. ``secrets`` are hidden in what it prints."""
    stdout, stderr = _Kept(MAX_STDOUT), _Kept(MAX_STDERR)
    readers = [
        asyncio.create_task(_read(group.process.stdout, stdout)),
        asyncio.create_task(_read(group.process.stderr, stderr)),
    ]
    try:
        code = await asyncio.shield(group.ended)
        _, late = await asyncio.wait(readers, timeout=GRACE_SECONDS)
        if late:
            # Processes that the command left behind hold its pipes. They end with it. Those that have left its
            # process group are not waited for: the output ends with what was read so far.
            group.signal(signal.SIGKILL)
            await asyncio.wait(readers, timeout=GRACE_SECONDS)
    except asyncio.CancelledError:
        await _end(group)
        raise
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return _outcome(code, stdout.output(), stderr.output(), strict, secrets)


async def _end(group: ProcessGroup) -> None:
    """Ends the whole process group: SIGTERM, and after the grace period SIGKILL."""
    group.signal(signal.SIGTERM)
    try:
        await asyncio.wait([group.ended], timeout=GRACE_SECONDS)
    finally:
        # Also if this is cancelled again meanwhile, because the workflow or the worker ends.
        group.signal(signal.SIGKILL)
    await asyncio.shield(group.ended)


class _Kept(asyncio.Protocol):
    """Reads a pipe and keeps the first bytes, at most ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()
        self._dropped = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done at the end of the pipe."""

    def data_received(self, data: bytes) -> None:
        room = self._most - len(self._data)
        self._data += data[:room]
        self._dropped += max(0, len(data) - room)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def output(self) -> _Output:
        return _Output(self._data.decode(errors="replace"), self._dropped)


async def _read(pipe: Any, kept: _Kept) -> None:
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: kept, pipe)
    try:
        await kept.over
    finally:
        transport.close()


def _outcome(code: int, stdout: _Output, stderr: _Output, strict: bool, secrets: AbstractSet[str]) -> Outcome:
    """The outcome of a command that ended with ``code``; negative: by that signal."""
    output, errors = _shown(stdout, secrets), _shown(stderr, secrets)
    if code != 0 and strict:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        last = _last_line(errors) or _last_line(output)
        return permanent(f"the command {how}" + (f": {last}" if last else ""))
    result: dict[str, Any] = {
        "exitCode": code,
        "success": code == 0,
        "stdout": output,
        "stderr": errors,
        "text": output.strip(),
        "json": None if stdout.dropped else hidden_in(_json(stdout.text), secrets),
    }
    if stdout.dropped or stderr.dropped:
        result["truncated"] = True
    return Success(result)


def _shown(output: _Output, secrets: AbstractSet[str]) -> str:
    if not output.dropped:
        return hidden(output.text, secrets)
    return f"{hidden(output.text, secrets, cut=True)}\n[truncated: {output.dropped} bytes more]"


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
