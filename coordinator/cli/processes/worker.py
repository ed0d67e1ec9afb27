"""``fleet worker``: one worker process."""

from __future__ import annotations

import contextlib

import msgspec

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.metrics import forget_gauges
from coordinator.processes.stores import running_url
from coordinator.processes.supervision.roles import run, slots
from coordinator.processes.supervision.running import Announcer, metrics_dir
from coordinator.processes.supervision.sockets import reserve
from coordinator.settings import LoadedSettings

_FOR_FRONTENDS = (
    "host",
    "port",
    "admin_port",
    "frontends",
    "workers",
    "embedded_fsync",
    "shards",
    "watchdog_seconds",
    "toolsets",
    "projects",
    "tool_name_style",
    "output_schemas",
    "allowed_hosts",
    "allowed_origins",
    "request_deadline_ms",
    "longest_wait_ms",
    "max_body_bytes",
    "max_header_bytes",
    "max_json_depth",
)


@with_settings(without=_FOR_FRONTENDS)
def worker(loaded: LoadedSettings) -> int:
    settings = msgspec.structs.replace(loaded.settings, redis_url=running_url(loaded.settings))
    directory = metrics_dir(settings)
    with contextlib.ExitStack() as held:
        if settings.worker_port:
            held.enter_context(reserve(settings.admin_host or settings.host, settings.worker_port, "worker_port"))
        (slot,) = held.enter_context(slots(directory, "w"))
        held.callback(forget_gauges, directory, slot)
        ready = Announcer(f"fleet worker {slot} ready", loaded, "worker")
        run("worker", slot, settings, directory, ready, alone=True)
    return Exit.OK
