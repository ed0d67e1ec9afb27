"""``fleet serve``: front-ends only, one in this process or several under a supervisor."""

from __future__ import annotations

import os

import msgspec

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.metrics import forget_gauges
from coordinator.processes.sound import require_secrets
from coordinator.processes.stores import running_url
from coordinator.processes.supervision.roles import run, slots
from coordinator.processes.supervision.running import Announcer, keep_frontends_up, metrics_dir
from coordinator.processes.supervision.sockets import reserved
from coordinator.settings import LoadedSettings
from coordinator.settings.effective_auth import base_url


@with_settings(without=("workers", "worker_port", "embedded_fsync", "shards"))
def serve(loaded: LoadedSettings) -> int:
    require_secrets(loaded, os.environ)
    settings = msgspec.structs.replace(loaded.settings, redis_url=running_url(loaded.settings))
    directory = metrics_dir(settings)
    with reserved(settings) as settings:
        several = settings.frontends > 1
        line = f"fleet front-ends ready at {base_url(settings.host, settings.port)}"
        ready = Announcer(line, loaded, None if several else "frontend")
        if several:
            keep_frontends_up(settings, loaded, directory, ready)
        else:
            with slots(directory, "fe") as (slot,):
                try:
                    run("frontend", slot, settings, directory, ready)
                finally:
                    forget_gauges(directory, slot)
    return Exit.OK
