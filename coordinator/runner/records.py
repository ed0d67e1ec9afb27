"""What a runner keeps of its attempts on disk, and what it finds there of runners that have died.

``<state>/runs/<item8>-<label>/`` has the logs of an attempt and ``run.json``; ``<state>/live/<run>`` is there, and
locked, while it runs. The lock ends with its runner, however that ends. ``<state>/untold/<run>`` is there after it
until the fleet knows what it has used (``reports/untold.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from coordinator.runner.protocols import JobAttempt
from coordinator.runner.result_file import BadResult, read_result
from coordinator.runner.supervision import strays

ROOM_BYTES = 256 << 20
"""Without so much free space, no attempt is begun."""
KEPT_SECONDS = 14 * 86_400.0
PRUNE_SECONDS = 3_600.0
UNTOLD = "untold"
DIED = "runner died"
"""The outcome of an attempt whose runner has died."""
PLACES = ("agents", "live", "metrics", "pruned", "runs", UNTOLD, "worktrees")
"""What runners have in their directory."""
_PREFIX = "fleet-run-"
_PATIENCE = 10.0


class NoRoom(Exception):
    """Attempts cannot be recorded; the message says why, for a person."""


@dataclass(slots=True)
class RunRecord:
    attempt: JobAttempt
    temporary: Path
    """A directory that the command can write even in a sandbox; removed at the end."""
    _marker: Path
    _lock: int

    @property
    def result_file(self) -> Path:
        return self.temporary / "result"

    def write(self, record: Mapping[str, Any]) -> None:
        write_private(self.attempt.directory / "run.json", json.dumps(record, indent=1) + "\n")

    def close(self, *, reported: bool = True) -> None:
        """The attempt is over, and nothing of it runs any more; ``reported``: the fleet knows what it has used."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        if reported:
            self._marker.unlink(missing_ok=True)
        else:
            _set_aside(self._marker)
        os.close(self._lock)


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def prepare(state: Path) -> None:
    """Makes the directories, and ends what dead runners have left. Raises NoRoom."""
    try:
        check_room(state)
        prune(state)
        _recover(state / "live")
    except OSError as error:
        raise NoRoom(f"logs cannot be kept in {state}: {error.strerror}") from None


@contextlib.contextmanager
def alone(state: Path, fleet: str, agent: str) -> Iterator[None]:
    """Lets one runner of this host act as an agent: each claim of one takes the item of the other away."""
    name = sha256(f"{fleet} {agent}".encode()).hexdigest()[:16]
    try:
        (state / "agents").mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(state / "agents" / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NoRoom(f"the runner cannot be recorded in {state}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise NoRoom(f"another runner on this host acts as {agent}: give each a name of its own") from None
    finally:
        os.close(lock)


def check_room(state: Path) -> None:
    """Makes the directories where they are missing, and checks that there is room for the logs of an attempt."""
    try:
        for name in ("runs", "live", UNTOLD):
            (state / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        free = shutil.disk_usage(state / "runs").free
    except OSError as error:
        raise NoRoom(f"logs cannot be kept in {state}: {error.strerror}") from None
    if free < ROOM_BYTES:
        raise NoRoom(f"no room for logs: {free >> 20} MiB are free in {state}, and {ROOM_BYTES >> 20} are needed")


def begin(state: Path, item_id: str, title: str, number: int, keys: Collection[str]) -> RunRecord:
    """Makes the place of an attempt, whose note gets a key that is none of ``keys``."""
    check_room(state)
    prune(state)
    runs, run_id = state / "runs", uuid.uuid4().hex
    again = 1
    while True:
        label = str(number) if again == 1 else f"{number}-{again}"
        again += 1
        if f"run-{label}" in keys:
            continue
        made = JobAttempt(item_id, title, number, label, run_id, runs)
        directory = runs / made.name
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue
        break
    temporary, marker, made_as = Path(tempfile.mkdtemp(prefix=_PREFIX)), state / "live" / run_id, directory / "live"
    lock = os.open(made_as, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, json.dumps({"temporary": str(temporary), "directory": str(directory)}).encode())
        # Locked before a runner that starts can see it, and take this one for dead.
        made_as.rename(marker)
    except OSError:
        os.close(lock)
        temporary.rmdir()
        raise
    return RunRecord(JobAttempt(item_id, title, number, label, run_id, directory), temporary, marker, lock)


def prune(state: Path) -> None:
    """Deletes the logs of attempts that ended long ago; looks at most once an hour."""
    looked, now = state / "pruned", time.time()
    with contextlib.suppress(OSError):
        if looked.exists() and 0 <= now - looked.stat().st_mtime < PRUNE_SECONDS:
            return
        looked.touch()
        with os.scandir(state / "runs") as entries:
            old = [entry.path for entry in entries if now - entry.stat(follow_symlinks=False).st_mtime > KEPT_SECONDS]
        living = {read_marker(marker).get("directory") for marker in (state / "live").iterdir()}
        for path in old:
            if path not in living:
                shutil.rmtree(path, ignore_errors=True)


def _set_aside(marker: Path) -> None:
    with contextlib.suppress(OSError):
        marker.rename(marker.parent.parent / UNTOLD / marker.name)


def read_marker(marker: Path) -> dict[str, Any]:
    """What is known of an attempt: its directories."""
    try:
        facts = json.loads(marker.read_text())
        return facts if isinstance(facts, dict) else {}
    except (OSError, ValueError):
        return {}


def _recover(live: Path) -> None:
    """Ends the runs whose runner is dead."""
    held = []
    for marker in live.iterdir():
        try:
            lock = os.open(marker, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # its attempt has ended meanwhile
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # its runner lives
            os.close(lock)
            continue
        held.append((marker, lock))
    deadline = time.monotonic() + _PATIENCE
    while held and strays.kill({marker.name for marker, _ in held}) and time.monotonic() < deadline:
        time.sleep(strays.ROUND_SECONDS)
    for marker, lock in held:
        try:
            known = json.loads(os.read(lock, 65_536))
            temporary, usage = Path(known["temporary"]), {}
            with contextlib.suppress(BadResult):
                result = read_result(temporary / "result")
                usage = {} if result is None or result.usage is None else result.usage.given()
            if temporary.name.startswith(_PREFIX) and temporary.parent == Path(tempfile.gettempdir()):
                shutil.rmtree(temporary, ignore_errors=True)
            path = Path(known["directory"]) / "run.json"
            if path.is_file():
                path.write_text(
                    json.dumps(json.loads(path.read_text()) | {"outcome": DIED, "given": usage}, indent=1) + "\n"
                )
        except (ValueError, KeyError, TypeError, OSError):
            pass  # it died before it had written that
        _set_aside(marker)
        os.close(lock)
