"""The fleet that the demo works on: the one that runs, or one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import runpy
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio

from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, read_fleet
from coordinator.processes.stores import given_url
from coordinator.processes.supervision.spawner import package_environment
from coordinator.settings import Settings, redacted
from coordinator.store.embedded.server import find_running

START_SECONDS = 60.0
_STOP_SECONDS = 40.0
_SAID_LINES = 20
_LOG = "fleet.log"


class Target(NamedTuple):
    base_url: str
    redis_url: str
    """Contains the password, so it is never shown."""
    data_dir: Path | None
    """Of a fleet on this machine; tells its processes."""


def running(settings: Settings, url: str | None) -> Target | None:
    """The fleet at ``url``, or the one of the data directory; None if there is none.

    Raises:
        ProcessProblem: there is one, but nothing says where its Redis is.
    """
    data_dir = Path(settings.data_dir)
    url = url.rstrip("/") if url is not None else None
    fleet = read_fleet(data_dir)
    if fleet is not None and not fleet.ready:
        raise ProcessProblem(f"the fleet in {data_dir} is still starting: try again once it is ready")
    if url is None and fleet is None:
        return None
    base_url = url or (fleet.base_url if fleet is not None else "")
    same = fleet is not None and url in (None, fleet.base_url)
    embedded = same and fleet is not None and fleet.store == "embedded"
    redis_url = find_running(data_dir) if embedded else given_url(settings)
    if not redis_url:
        raise ProcessProblem(
            f"the demo follows and audits its project in the Redis of the fleet at {redacted(base_url)}: "
            "say which with --redis-url, or give its --data-dir",
            "usage",
        )
    return Target(base_url, redis_url, data_dir if same else None)


@asynccontextmanager
async def own(settings: Settings) -> AsyncIterator[Target]:
    """A fleet on a free port, on the given Redis or else with data of its own, which are gone afterwards."""
    data_dir = Path(tempfile.mkdtemp(prefix="fleet-demo-"))
    redis_url = given_url(settings)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "coordinator.demo.fleet", _LOG, "up",
            "--data-dir", str(data_dir), "--host", "127.0.0.1", "--port", "0",
            "--frontends", str(settings.frontends), "--workers", "0", "--log-format", "json",
            cwd=data_dir, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=_environment(redis_url),
            start_new_session=True,  # Ctrl-C is for the demo, which stops it last
        )  # fmt: skip
        try:
            fleet = await _until_ready(process, data_dir)
            yield Target(fleet.base_url, redis_url or find_running(data_dir) or "", data_dir)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            with anyio.move_on_after(_STOP_SECONDS):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


async def _until_ready(process: asyncio.subprocess.Process, data_dir: Path) -> Fleet:
    """Waits for the line that says so. Raises as ``own``, with the last that the fleet said."""
    said = b"-"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.stdout is not None and said and b"ready" not in said:
                said = await process.stdout.readline()
    fleet = read_fleet(data_dir)
    if fleet is None or not fleet.ready:
        log = data_dir / _LOG
        words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SAID_LINES:] if log.exists() else []
        raise ProcessProblem("\n".join([f"the demo's own fleet is not ready within {START_SECONDS:.0f} s:", *words]))
    return fleet


def _environment(redis_url: str) -> dict[str, str]:
    """Ours without settings. A Redis URL is told this way, because every user can read a command line."""
    whole, kept = package_environment().items(), ("FLEET_REDIS_SERVER",)
    ours = {name: value for name, value in whole if not name.startswith("FLEET_") or name in kept}
    return {**ours, "FLEET_REDIS_URL": redis_url} if redis_url else ours


class Chaos:
    """Kills the front-ends of the fleet in ``data_dir`` with SIGKILL, one after the other, some seconds apart."""

    def __init__(self, data_dir: Path, seconds: float) -> None:
        self._data_dir = data_dir
        self._seconds = seconds
        self._last = ""
        self.kills = 0

    async def run(self) -> None:
        """Kills until it is cancelled."""
        while True:
            self.kills += self.kill()
            await asyncio.sleep(self._seconds)

    def kill(self) -> bool:
        """Kills the next front-end, unless it is still starting."""
        fleet = read_fleet(self._data_dir)
        up = sorted(
            (process.slot, process.pid)
            for process in (fleet.processes if fleet is not None else ())
            if process.role == "frontend" and process.ready and process.pid is not None
        )
        if not up:
            return False
        slot, pid = next((pair for pair in up if pair[0] > self._last), up[0])
        self._last = slot
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def _tied(log: str, *arguments: str) -> None:
    """Runs a ``fleet`` command that stops in order when its stdin closes, however its starter ended. Its stderr goes to
    the file ``log``."""

    def watch() -> None:
        # Not sys.stdin: a reader that sits in there would keep the interpreter from ending.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    threading.Thread(target=watch, name="tie", daemon=True).start()
    sys.argv[1:] = arguments
    runpy.run_module("coordinator", run_name="__main__")


if __name__ == "__main__":
    _tied(*sys.argv[1:])
