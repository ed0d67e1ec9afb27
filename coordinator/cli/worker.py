"""``fleet worker``: one worker process."""

from __future__ import annotations

import os

import msgspec

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.roles import SlotTaken, run
from coordinator.cli.running import Announcer, free_slots, metrics_dir
from coordinator.cli.stores import running_url
from coordinator.settings import LoadedSettings

_FOR_FRONTENDS = (
    "host",
    "port",
    "frontends",
    "workers",
    "embedded_fsync",
    "toolsets",
    "tool_name_style",
    "allowed_hosts",
    "allowed_origins",
    "request_deadline_ms",
    "max_body_bytes",
    "max_header_bytes",
    "max_json_depth",
)


@with_settings(without=_FOR_FRONTENDS)
def worker(loaded: LoadedSettings) -> int:
    """Works until SIGTERM or SIGINT, then finishes the steps in hand within drain_seconds and gives the rest back."""
    settings = msgspec.structs.replace(loaded.settings, redis_url=running_url(loaded.settings, os.environ))
    directory = metrics_dir(settings)
    while True:
        slot = free_slots(directory, "w", 1)[0]
        try:
            run("worker", slot, settings, directory, Announcer(f"fleet worker {slot} ready", loaded))
        except SlotTaken:
            continue  # by a worker that starts at the same moment
        return Exit.OK
