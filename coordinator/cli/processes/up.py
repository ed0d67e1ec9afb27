"""``fleet up``: the whole fleet on one machine."""

from __future__ import annotations

import contextlib
import os
import sys

from coordinator.cli.exits import Exit
from coordinator.cli.flags import LISTED, with_settings
from coordinator.errors import ToolFailure
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.sound import require_secrets
from coordinator.processes.stores import open_store
from coordinator.processes.up import run_up
from coordinator.settings import LoadedSettings, Settings
from coordinator.settings.effective_auth import console_url


@with_settings(without=("worker_port",), listed=(*LISTED, "shards"), starts_store=True)
def up(loaded: LoadedSettings) -> int:
    require_secrets(loaded, os.environ)
    run_up(loaded, _show_console)
    return Exit.OK


async def _show_console(settings: Settings) -> None:
    """Prints a link to the console, for people only: it must not end up in a log."""
    if not settings.console.enabled or sys.stdout is None or not sys.stdout.isatty():
        return
    # Imported here, because the console takes a while, and few fleets are started at a terminal.
    from coordinator.cli.console import NOTE, make_link

    with contextlib.suppress(ProcessProblem, ToolFailure, OSError):  # the fleet runs without a link, too
        store = await open_store(settings.redis_url, settings.redis_timeout_ms)
        try:
            link = await make_link(store, settings, console_url(settings))
        finally:
            await store.close()
        print(f"console: {link} ({NOTE}; later: fleet console)", flush=True)
