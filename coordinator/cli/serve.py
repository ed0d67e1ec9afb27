"""``fleet serve``: front-ends only, one in this process or several under a supervisor."""

from __future__ import annotations

import os

import msgspec

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.roles import run, slots
from coordinator.cli.running import Announcer, keep_up, metrics_dir
from coordinator.cli.sockets import base_url, reserved
from coordinator.cli.stores import running_url
from coordinator.settings import LoadedSettings


@with_settings(without=("workers", "embedded_fsync"))
def serve(loaded: LoadedSettings) -> int:
    """Serves until SIGTERM or SIGINT, then drains."""
    settings = msgspec.structs.replace(loaded.settings, redis_url=running_url(loaded.settings, os.environ))
    directory = metrics_dir(settings)
    with reserved(settings) as settings:
        ready = Announcer(f"fleet front-ends ready at {base_url(settings.host, settings.port)}", loaded)
        if settings.frontends > 1:
            keep_up("frontend", "fe", settings.frontends, settings, loaded, directory, ready)
        else:
            with slots(directory, "fe") as (slot,):
                run("frontend", slot, settings, directory, ready)
    return Exit.OK
