"""The operator's commands around an attempt, and the runner's commits: below a supervisor, with an end and a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.runner import processes
from coordinator.runner.masking import Masker, secrets_of
from coordinator.runner.protocols import Attempt, WorkspaceFailed

HOOK_SECONDS = 600.0
"""How long a hook, or the hooks of a commit, may take."""
LOG = "hooks.log"
_MOST = 8 << 20


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

    async def must(self, name: str, attempt: Attempt, path: Path, more: Mapping[str, str]) -> None:
        """Runs a hook that has to succeed.

        Raises:
            WorkspaceFailed: it did not.
        """
        if problem := await self.run(name, attempt, path, more):
            raise WorkspaceFailed(problem)

    async def run(self, name: str, attempt: Attempt, path: Path, more: Mapping[str, str]) -> str:
        """Runs a hook, and returns what went wrong, for a person."""
        if not (command := getattr(self, name)):
            return ""
        words = ("/bin/sh", "-c", command)
        return await run(words, f"--{name}", attempt, path, {**attempt.environment, **more}, self.seconds)


NONE = Hooks()


async def run(
    command: Sequence[str], what: str, attempt: Attempt, path: Path, environment: Mapping[str, str], seconds: float
) -> str:
    """Runs a command, ends all that it has started, and returns what went wrong; what it prints goes to the log."""
    masker, said, size = Masker(secrets_of(environment)), [b""], 0
    with open(attempt.directory / LOG, "ab", opener=_private) as log:  # noqa: ASYNC230 (a local file)
        log.write(f"# {what}\n".encode())

        def take(_: processes.Stream, part: bytes) -> None:
            nonlocal size
            size += len(part)
            said[0] = (said[0] + part)[-65_536:]
            if size <= _MOST:
                with contextlib.suppress(OSError):  # no room: the output still is drained
                    log.write(masker(part))

        marks = {"FLEET_RUN": attempt.run_id, "FLEET_WORKSPACE": str(path)}
        try:
            supervised = await processes.start(
                command,
                run_id=attempt.run_id,
                environment={**environment, **marks},
                directory=path,
                sink=take,
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
    lines = [line for line in masker(said[0]).decode(errors="replace").splitlines() if line.strip()]
    words = " ".join(lines[-1].split())[:300] if lines else ""
    if late:
        return f"{what} took longer than {seconds:.0f} seconds"
    if ended.failed:
        return f"{what} cannot be started: {ended.failed}"
    return f"{what} ended with {ended.code}" + (f": {words}" if words else "") if ended.code else ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
