"""The operator's commands around an attempt, and the runner's commits: below a supervisor, with an end and a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.runner.masking import Masker, secrets_of
from coordinator.runner.protocols import JobAttempt, WorkspaceFailed
from coordinator.runner.supervision import processes

HOOK_SECONDS = 600.0
"""How long a hook, or the hooks of a commit, may take."""
LOG = "hooks.log"
_MOST = 8 << 20
_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Hooks:
    """Shell commands of the operator, run in the workspace with the attempt's environment; empty: none.

    ``setup`` when it was made, ``before`` each attempt: if one fails, the command is not run. ``after`` the command,
    before its work is committed, and ``teardown`` before the workspace is removed: their failures are only logged.
    """

    setup: str = ""
    before: str = ""
    after: str = ""
    teardown: str = ""
    seconds: float = HOOK_SECONDS

    async def must(self, name: str, attempt: JobAttempt, path: Path, more: Mapping[str, str]) -> None:
        """Runs a hook that has to succeed. Raises WorkspaceFailed: it did not."""
        if problem := await self.run(name, attempt, path, more):
            raise WorkspaceFailed(problem)

    async def run(self, name: str, attempt: JobAttempt, path: Path, more: Mapping[str, str]) -> str:
        """Runs a hook, and returns what went wrong, for a person."""
        if not (command := getattr(self, name)):
            return ""
        words = ("/bin/sh", "-c", command)
        return await run(words, f"--{name}", attempt, path, {**attempt.environment, **more}, self.seconds)


NONE = Hooks()


async def run(
    command: Sequence[str], what: str, attempt: JobAttempt, path: Path, environment: Mapping[str, str], seconds: float
) -> str:
    """Runs a command, ends all that it has started, and returns what went wrong; what it prints goes to the log."""
    masker = Masker(secrets_of(environment))
    try:
        log = _Log(attempt.directory / LOG, masker, what)
    except OSError as error:
        return f"{what} is not run, because there is no log: {error.strerror}"
    try:
        marks = {"FLEET_RUN": attempt.run_id, "FLEET_WORKSPACE": str(path)}
        try:
            supervised = await processes.start(
                command,
                run_id=attempt.run_id,
                environment={**environment, **marks},
                directory=path,
                sink=lambda _, part: log.write(part),
                grace=(2.0, 2.0),
            )
        except OSError as error:
            return f"{what} cannot be started: {error.strerror}"
        late = False
        waiting = asyncio.ensure_future(supervised.wait())
        try:
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
            if late := not done:
                supervised.stop()
            ended = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            supervised.kill()
            await asyncio.shield(waiting)
            raise
    finally:
        words = log.close()
    if late:
        return f"{what} took longer than {seconds:.0f} seconds"
    if ended.failed:
        return f"{what} cannot be started: {ended.failed}"
    return f"{what} ended with {ended.code}" + (f": {words}" if words else "") if ended.code else ""


class _Log:
    """Output with secrets masked, whole lines at a time, and a bound; a full disk ends it, but not the command."""

    def __init__(self, path: Path, masker: Masker, heading: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._masker = masker
        self._size = 0
        self._line = b""
        self._last = b""
        self._out(f"# {heading}\n".encode())

    def write(self, part: bytes) -> None:
        whole, end, self._line = (self._line + part).rpartition(b"\n")
        if len(self._line) > _LINE:
            whole, self._line = whole + end + self._line, b""
        masked = self._masker(whole + end)
        if lines := [line for line in masked[-_LINE:].splitlines() if not line.isspace()]:
            self._last = lines[-1]
        if self._size < _MOST:
            self._size += len(masked)
            self._out(masked)

    def _out(self, text: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._file, text)

    def close(self) -> str:
        """Ends it; returns its last words."""
        if self._line:
            self.write(b"\n")
        os.close(self._file)
        return " ".join(self._last.decode(errors="replace").split())[:300]
