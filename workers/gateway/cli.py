"""Commands: argument vectors, never a shell; a small environment; bounded output; the whole process group is ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from coordinator.settings.connections import Connection, Interpolator, hidden
from coordinator.steps.model import Outcome, Success
from coordinator.toolsets.gateway.rules.calls import CliCall
from workers.gateway.failures import permanent, unreachable

MAX_STDOUT = 1024 * 1024
MAX_STDERR = 64 * 1024
"""Bytes that are kept; what comes after them is read and dropped."""
GRACE_SECONDS = 1.0
"""Between the first signal to a group and the last."""
KEY = "IDEMPOTENCY_KEY"

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What a command gets of the worker's own environment, besides what the configuration states."""


async def run_command(call: CliCall, connection: Connection | None, environment: Mapping[str, str]) -> Outcome:
    """Runs a command to its end; cancelling this ends it and everything it has started.

    Args:
        connection: of kind cli; None: the call names the command itself.
        environment: what ``${NAME}`` stands for.
    """
    filled = Interpolator(environment)
    try:
        argv, env, directory = _prepared(call, connection, environment, filled)
    except KeyError as missing:
        return permanent(f"the environment variable {missing.args[0]} is not set")
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 -- starting is quick, and uvloop's own way knows no process groups
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=directory,
            process_group=0,
        )
    except FileNotFoundError:
        return unreachable("the program, or its working directory, is not there")
    except PermissionError:
        return unreachable("the program may not be executed")
    except (OSError, ValueError) as error:
        return unreachable(f"the program cannot be started: {type(error).__name__}")
    return await _Running(process).result(call.strict, call.secrets | filled.secrets)


def _prepared(
    call: CliCall, connection: Connection | None, environment: Mapping[str, str], filled: Interpolator
) -> tuple[list[str], dict[str, str], str | None]:
    """Argument vector, environment and directory.

    Raises:
        KeyError: a variable that is not set.
    """
    command, directory, stated = call.command, call.working_directory, call.env
    if connection is not None:
        command = filled(connection.command)
        directory = directory or filled(connection.working_directory)
        stated = {**{name: filled(value) for name, value in connection.env.items()}, **stated}
    env = {name: environment[name] for name in _INHERITED if name in environment}
    env |= {name: value for name, value in environment.items() if name.startswith("LC_")}
    env |= stated
    if call.key:
        env[KEY] = call.key
    return [command, *call.args], env, directory or None


class _Running:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()

    async def result(self, strict: bool, secrets: AbstractSet[str]) -> Outcome:
        """Its outcome, when it has ended; ``secrets`` are hidden in its stderr."""
        threading.Thread(target=self._wait, name=f"command {self._process.pid}", daemon=True).start()
        kept = _Kept(MAX_STDOUT), _Kept(MAX_STDERR)
        readers = [
            asyncio.create_task(_read(self._process.stdout, kept[0])),
            asyncio.create_task(_read(self._process.stderr, kept[1])),
        ]
        try:
            code = await asyncio.shield(self._ended)
            _, late = await asyncio.wait(readers, timeout=GRACE_SECONDS)
            if late:
                # Something that it left behind holds its pipes; it was one command. What has left the group
                # as well is not waited for: what came through the pipes so far is all.
                self._signal(signal.SIGKILL)
                await asyncio.wait(readers, timeout=GRACE_SECONDS)
        except asyncio.CancelledError:
            await self._end()
            raise
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return _outcome(code, kept[0].text(), kept[1].text(), strict, secrets)

    async def _end(self) -> None:
        """Ends the whole group: SIGTERM, and after the grace period SIGKILL."""
        self._signal(signal.SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await asyncio.shield(self._ended)
        finally:
            # Also where this is cancelled again meanwhile, by the end of the workflow or of the worker.
            self._signal(signal.SIGKILL)
        await asyncio.shield(self._ended)

    def _signal(self, number: int) -> None:
        # The group's number stays taken for as long as any of its processes lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _wait(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it
            self._loop.call_soon_threadsafe(self._set_ended, code)

    def _set_ended(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)


class _Kept(asyncio.Protocol):
    """Reads a pipe, and keeps at most the first bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.data = bytearray()
        self.dropped = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        room = self._most - len(self.data)
        self.data += data[:room]
        self.dropped += max(0, len(data) - room)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def text(self) -> tuple[str, int]:
        """The text that came so far, and how many bytes were dropped."""
        text = self.data.decode(errors="replace")
        if self.dropped:
            text += f"\n[truncated: {self.dropped} bytes more]"
        return text, self.dropped


async def _read(pipe: Any, kept: _Kept) -> None:
    """Reads a pipe up to its end."""
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: kept, pipe)
    try:
        await kept.over
    finally:
        transport.close()


def _outcome(
    code: int, stdout: tuple[str, int], stderr: tuple[str, int], strict: bool, secrets: AbstractSet[str]
) -> Outcome:
    text, dropped = stdout
    errors = hidden(stderr[0], secrets)
    if code != 0 and strict:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        said = _last_line(errors) or _last_line(hidden(text, secrets))
        return permanent(f"the command {how}" + (f": {said}" if said else ""))
    found: dict[str, Any] = {
        "exitCode": code,
        "success": code == 0,
        "stdout": text,
        "stderr": errors,
        "text": text.strip(),
        "json": None if dropped else _json(text),
    }
    if dropped or stderr[1]:
        found["truncated"] = True
    return Success(found)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
