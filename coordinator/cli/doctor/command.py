"""The command ``fleet doctor``."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from coordinator.cli.commands import COMMANDS
from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.cli.terminal import print_as
from coordinator.doctor import alerts, host
from coordinator.doctor.alerts import read_gauges
from coordinator.doctor.findings import lines_of
from coordinator.doctor.fleet import check_fleet
from coordinator.processes.fleetfile import read_fleet
from coordinator.processes.stores import running_url, store_failed
from coordinator.processes.supervision.running import metrics_dir
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import StoreError, StoreIdentity
from coordinator.store.checks.identity import identity_file


@with_settings(listed=STORE_SETTINGS)
def doctor(
    loaded: LoadedSettings,
    *,
    verbose: Annotated[bool, Parameter(help="Also print the checks that pass.")] = False,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print what was found.")] = "text",
) -> int:
    findings = list(host.check(loaded.settings))
    url, timeout_ms = running_url(loaded.settings), loaded.settings.redis_timeout_ms
    file = identity_file(loaded.settings.data_dir, url)
    expected = StoreIdentity(file.read(), loaded.settings.store_id, accepted=file.accepted())
    # Imported here: it loads what checks the gateway's schemas, which other commands do not need.
    from coordinator.toolsets.gateway import all_connections

    stated = all_connections(loaded.settings.gateway, loaded.settings.connections)
    gauges = functools.cache(lambda: read_gauges(_metrics_dir(loaded.settings)))
    queue_url = loaded.settings.steps.queue_url or url
    try:
        findings += asyncio.run(check_fleet(url, queue_url, timeout_ms, expected, stated, gauges))
    except StoreError as error:
        raise store_failed(error) from None
    findings += alerts.check(gauges(), findings)
    visible = [finding for finding in findings if verbose or finding.verdict != "ok"]
    print_as(visible, lines_of(visible), format == "json")
    return Exit.FAILED if any(finding.verdict in ("warns", "fails") for finding in findings) else Exit.OK


def _metrics_dir(settings: Settings) -> Path:
    """Where the processes of the fleet on the data directory keep their gauges."""
    fleet = read_fleet(Path(settings.data_dir))
    return Path(fleet.metrics_dir) if fleet is not None else metrics_dir(settings)


_IDENTITY = COMMANDS["doctor identity"]

app = App(name="doctor", help_format="plaintext", **COMMANDS["doctor"].page)
app.default(doctor)
app.command(_IDENTITY.target, name="identity", **_IDENTITY.page)
