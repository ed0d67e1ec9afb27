"""``fleet console``: a link that signs an operator in to the console."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, with_store
from coordinator.cli.terminal import user
from coordinator.console.signin.tickets import SECONDS, make_ticket
from coordinator.processes.fleetfile import read_fleet
from coordinator.settings import LoadedSettings, Settings
from coordinator.settings.effective_auth import console_url
from coordinator.store import Store
from coordinator.transport.rounds.sealing import Seals

NOTE = f"signs you in once, within {SECONDS} s"
"""What people should know about a link."""


@with_settings(only=(*STORE_SETTINGS, "host", "port"))
def console(
    loaded: LoadedSettings,
    *,
    open: Annotated[bool, Parameter(help="Open it in the browser of this machine, too.")] = False,
) -> None:
    settings = loaded.settings
    if not settings.console.enabled:
        raise CommandFailed("the console is off: see the setting console.enabled", Exit.USAGE)
    link = with_store(loaded, lambda store: make_link(store, settings, _base(settings)))
    print(link)
    print(f"fleet: {NOTE}, as {user() or 'operator'}", file=sys.stderr)
    if open and not webbrowser.open(link):
        raise CommandFailed("no browser could be opened here; open the link yourself")


async def make_link(store: Store, settings: Settings, base: str) -> str:
    """A new link for the user at the terminal; ``base`` is where the console is, without its path."""
    path = await make_ticket(store, Seals(store, settings), user() or "operator")
    return base + path


def _base(settings: Settings) -> str:
    """Where the console is: as the settings say, or else at the fleet that runs on the data directory."""
    fleet = read_fleet(Path(settings.data_dir))
    if fleet is None or settings.console.public_url or settings.auth.resource:
        return console_url(settings)
    return fleet.admin_url if settings.console.listener == "admin" else fleet.base_url
