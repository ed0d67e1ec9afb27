"""The command ``fleet top``."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Annotated

import httpx2
from cyclopts import Parameter

from coordinator.cli.checks import check_base_url, check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.top.readings import Interval, Reading, read
from coordinator.metrics.hot import published
from coordinator.metrics.slots import owned
from coordinator.processes.fleetfile import Fleet, in_use, read_fleet
from coordinator.processes.supervision.running import metrics_dir
from coordinator.settings import TOKEN_VARIABLE, LoadedSettings, Settings, redacted
from coordinator.settings.effective_auth import base_url
from coordinator.wording import printable

_HOT_ITEMS = 5
_TIMEOUT_SECONDS = 5.0


@with_settings(only=("data_dir",))
def top(
    loaded: LoadedSettings,
    *,
    url: Annotated[
        str | None, Parameter(help="Base URL of the metrics; those of the fleet of the data directory if not given.")
    ] = None,
    interval: Annotated[float, Parameter(help="Seconds between two readings. [0.2 to 60]")] = 2.0,
    once: Annotated[bool, Parameter(help="Print one interval and end.")] = False,
) -> None:
    # Imported here, because importing rich takes long and other commands do not need it.
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from coordinator.cli.top.screen import screen

    check_range("--interval", interval, 0.2, 60)
    check_base_url(url)
    data_dir = Path(loaded.settings.data_dir)
    fleet = read_fleet(data_dir) if url is None else None
    directory = metrics_dir(loaded.settings)
    if url is None and fleet is None:
        if in_use(data_dir):
            raise CommandFailed(f"the fleet on {data_dir} is still starting: try again in a moment")
        if not owned(directory):  # else the port may belong to a fleet of another directory
            raise CommandFailed(f"no fleet runs on {data_dir}: start `fleet up` there, or say where with --url")
    supervised = fleet is not None
    where = url or _place(fleet) or _configured(loaded.settings)
    console = Console()
    live = None if once or not console.is_interactive else Live(console=console, auto_refresh=False)
    with httpx2.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, headers=_credentials()) as client:
        before = _scrape(client, where)
        with live or contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(interval)
                fleet = read_fleet(data_dir) if url is None else None
                where = _place(fleet) or where
                view: RenderableType
                try:
                    if supervised and fleet is None:  # another fleet may have its port by now
                        raise CommandFailed(f"the fleet on {data_dir} has stopped; waiting for the next one")
                    after = _scrape(client, where)
                except CommandFailed as failure:
                    if once:
                        raise
                    # The fleet may be restarting, which is exactly when it is worth watching.
                    view = Text(printable(str(failure)), style="bold red")
                else:
                    if fleet is not None:
                        directory = Path(fleet.metrics_dir)
                    hot = published(directory, _HOT_ITEMS) if url is None else []
                    terminal = console if live is not None else None
                    view = screen(Interval(before, after), fleet, hot, redacted(where), terminal)
                    before = after
                if live is not None:
                    live.update(view, refresh=True)
                else:
                    # A file, a pipe or a dumb terminal: print one after the other.
                    console.print(view)
                if once:
                    break


def _place(fleet: Fleet | None) -> str | None:
    return (fleet.admin_url or fleet.base_url) if fleet is not None else None


def _configured(settings: Settings) -> str:
    """The metrics of ``fleet serve``, or of ``fleet worker`` with a port: these write no ``fleet.json``."""
    return base_url(settings.admin_host or settings.host, settings.admin_port or settings.worker_port or settings.port)


def _credentials() -> dict[str, str]:
    """The headers that identify the caller. Raises CommandFailed: the token cannot be sent."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not (token.isascii() and token.isprintable()):
        raise CommandFailed(f"{TOKEN_VARIABLE} holds characters that no token has", Exit.USAGE)
    return {"authorization": f"Bearer {token}"} if token else {}


def _scrape(client: httpx2.Client, where: str) -> Reading:
    """One reading of the metrics. Raises CommandFailed: they cannot be read."""
    try:
        response = client.get(where.rstrip("/") + "/metrics")
        if response.status_code in (401, 403):
            raise CommandFailed(f"{redacted(where)} needs authentication: put a token into {TOKEN_VARIABLE}")
        if response.status_code != 200:
            raise ValueError(f"the answer is {response.status_code} {response.reason_phrase}".rstrip())
        return read(response.text, time.monotonic())
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise CommandFailed(f"the metrics at {redacted(where)} cannot be read: {redacted(why)}") from None
