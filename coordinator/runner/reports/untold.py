"""Tells the fleet what attempts have used that ended without that: their claim was lost, or their runner has died."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from coordinator.client import Denied, Fleet, FleetError, NotFound, Unavailable
from coordinator.runner.presets import PRESETS, SCRIPT
from coordinator.runner.protocols import Usage
from coordinator.runner.records import DIED, UNTOLD, read_marker
from coordinator.runner.reports.usage import Most, RunNote, Sum, total_of

_LOOK_SECONDS = 60.0


async def keep_telling(fleet: Fleet, state: Path, most: Most, say: Callable[[str], None]) -> None:
    """Tells of such attempts until it is cancelled: of those that are there, and of those to come."""
    while True:
        await tell_untold(fleet, state, most, say)
        await asyncio.sleep(_LOOK_SECONDS)


async def tell_untold(fleet: Fleet, state: Path, most: Most, say: Callable[[str], None]) -> None:
    """Tells of all such attempts on this fleet and project; those that cannot be told of now stay."""
    try:
        marks = sorted((state / UNTOLD).iterdir())
    except OSError:
        return
    for mark in marks:
        with contextlib.suppress(OSError):
            lock = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else another runner on this host is about to
                if await _told(fleet, mark, most, say):
                    mark.unlink(missing_ok=True)
            finally:
                os.close(lock)


async def _told(fleet: Fleet, mark: Path, most: Most, say: Callable[[str], None]) -> bool:
    """Whether there is nothing left to tell of an attempt."""
    directory = Path(str(read_marker(mark).get("directory", "")))
    try:
        record = json.loads(await asyncio.to_thread((directory / "run.json").read_text))
        mine = (record["url"], record["project"]) == (fleet.url, fleet.project)
        item, label, agent, total = record["item"], record["label"], record["agent"], record.get("usage")
        if mine and (record["outcome"] == DIED or not isinstance(total, dict)):
            total = await asyncio.to_thread(_read_again, directory, record)
    except (OSError, ValueError, KeyError, TypeError):
        return True  # it has not begun, or its logs are gone
    if not mine:
        return False
    facts = {name: record[name] for name in ("attempt", "outcome", "reason", "host") if name in record}
    facts["log"] = str(directory)
    for name in (agent, fleet.agent):
        try:
            await RunNote(fleet, item, f"run-{label}", mark.name, name, most, new=False).tell(facts, total)
            return True
        except Unavailable:
            return False
        except NotFound:
            return True
        except Denied:  # the token is another one now
            continue
        except FleetError as error:
            say(f"{item[:8]} what attempt {label} has used cannot be told: {error.message}")
            return True
    return False


def _read_again(directory: Path, record: dict[str, Any]) -> Sum:
    """What the logs of an attempt say that it has used."""
    reader = PRESETS.get(str(record.get("preset")), SCRIPT).reader()
    ended = 0.0
    for stream in ("stdout", "stderr"):
        with contextlib.suppress(OSError), open(directory / f"{stream}.log", "rb") as log:
            ended = min(max(ended, os.fstat(log.fileno()).st_mtime), time.time())  # a command can change it
            for line in log:
                reader.line("stdout" if stream == "stdout" else "stderr", line.rstrip(b"\n"))
    usage = reader.reading().usage
    stated = record.get("given")
    for name, value in stated.items() if isinstance(stated, dict) else ():
        if name in Usage.__dataclass_fields__:
            setattr(usage, name, value)
    began = datetime.fromisoformat(str(record["started"])).timestamp()
    return total_of(usage, max(0.0, ended - began))
