"""``fleet worker``: one worker process."""

from __future__ import annotations

import os

import msgspec

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.roles import run, slots
from coordinator.cli.running import Announcer, metrics_dir
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
    with slots(directory, "w") as (slot,):
        run("worker", slot, settings, directory, Announcer(f"fleet worker {slot} ready", loaded))
    return Exit.OK
