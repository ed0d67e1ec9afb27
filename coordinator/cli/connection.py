"""How commands that call a fleet over HTTP find it, and who they are there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Group, Parameter

from coordinator.cli.checks import base_urls, by_flag, check_project_name
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.refusals import as_typed
from coordinator.cli.terminal import operator
from coordinator.client import Fleet, FleetError, Invalid, Unavailable
from coordinator.settings import AGENT_VARIABLE, PROJECT_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from coordinator.settings import LoadedSettings

R = TypeVar("R")

PATIENCE_SECONDS = 10.0
"""How long a command that a person waits for repeats a call."""

_GROUP = Group("Connection", help="FLEET_TOKEN holds the bearer token, where the fleet requires one.", sort_key=10)

Urls = Annotated[
    tuple[str, ...],
    Parameter(
        help="Base URL of the fleet, or several after commas. Default: the fleet of the data directory. "
        f"[env: {URL_VARIABLE}]",
        show_default=False,
    ),
]
TokenFile = Annotated[Path | None, Parameter(help="File with the bearer token, instead of FLEET_TOKEN.")]


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True)
class Connection:
    """The flags of a command that calls a fleet."""

    url: Urls = ()
    token_file: TokenFile = None
    project: Annotated[str, Parameter(help="The project.", env_var=PROJECT_VARIABLE)] = "default"
    agent: Annotated[
        str | None,
        Parameter(help="Id of who acts. Default: that of the token, else the user here.", env_var=AGENT_VARIABLE),
    ] = None
    data_dir: Annotated[str | None, Parameter(help="Directory of a fleet on this machine.")] = None

    def token(self) -> str | None:
        """The bearer token; None: there is none. Raises CommandFailed: the file cannot be read, or holds no token."""
        text = os.environ.get(TOKEN_VARIABLE, "")
        source = TOKEN_VARIABLE
        if self.token_file is not None:
            source = f"--token-file {self.token_file}"
            try:
                text = self.token_file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                raise CommandFailed(f"{source} cannot be read: {why}", Exit.USAGE) from None
            if not text.strip():
                raise CommandFailed(f"{source} is empty", Exit.USAGE)
        text = text.strip()
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise CommandFailed(f"{source} holds characters that no token has", Exit.USAGE)
        return text or None

    def base_url(self) -> str:
        """Where the fleet is; several URLs are after commas."""
        if self.url and self.data_dir:
            raise CommandFailed("--url and --data-dir exclude each other: each names a fleet", Exit.USAGE)
        by_variable = "" if self.data_dir else os.environ.get(URL_VARIABLE, "")
        if self.url:
            return ",".join(base_urls(",".join(self.url), "--url"))
        if by_variable:
            return ",".join(base_urls(by_variable, URL_VARIABLE))
        # Here, because it takes long to import, and a URL does not need it.
        from coordinator.processes.fleetfile import in_use, read_fleet

        data_dir = self._data_dir()
        if (fleet := read_fleet(data_dir)) is not None:
            return fleet.base_url
        if in_use(data_dir):
            why = f"the fleet on {data_dir} is still starting: try again in a moment"
        else:
            why = f"no fleet runs on {data_dir}: start `fleet up` there, or give --url or {URL_VARIABLE}"
        raise CommandFailed(why, Exit.STORE_UNREACHABLE)

    def metrics_here(self) -> Path | None:
        """The directory of the metrics of the fleet that is called, if that is the fleet of the data directory."""
        from coordinator.processes.fleetfile import read_fleet
        from coordinator.settings.problems import SettingsError

        called = self.base_url().split(",")
        try:
            fleet = read_fleet(self._data_dir())
        except SettingsError:  # a URL needs no settings
            return None
        return Path(fleet.metrics_dir) if fleet is not None and fleet.base_url in called else None

    def _data_dir(self) -> Path:
        from coordinator.settings import load_settings

        return Path(load_settings({"data_dir": self.data_dir}, os.environ).settings.data_dir)

    def open(self, patience: float = PATIENCE_SECONDS) -> Fleet:
        """A client of the fleet, which repeats a call for ``patience`` seconds."""
        check_project_name(self.project)
        token = self.token()
        # With a token, its caller acts; who acts without one can only be said.
        agent = self.agent or ("" if token else operator())
        return Fleet(self.base_url(), token, self.project, agent, kind="user", patience=patience)

    def run(self, act: Callable[[Fleet], Awaitable[R]], patience: float = PATIENCE_SECONDS) -> R:
        """Runs ``act`` with a client of the fleet; a failure of a call ends the command."""

        async def main() -> R:
            async with self.open(patience) as fleet:
                return await act(fleet)

        try:
            return asyncio.run(main())
        except Invalid as error:
            raise CommandFailed(as_typed(error.message), Exit.USAGE) from None
        except Unavailable as error:
            raise CommandFailed(error.message, Exit.STORE_UNREACHABLE) from None
        except FleetError as error:
            raise CommandFailed(as_typed(error.message)) from None


HERE = Connection()
"""The default of the parameter ``at`` of commands."""


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True)
class ByUrl:
    """The flags of a command that works on the store of a fleet, or over its URL."""

    url: Urls = ()
    token_file: TokenFile = None

    def connection(self, loaded: LoadedSettings, project: str) -> Connection | None:
        """The fleet that a URL names; None: the store that the settings name.

        A flag decides before FLEET_URL, and that before other settings, as it does for commands that take URLs only.
        """
        stores = [f"--{name.replace('_', '-')}" for name in ("redis_url", "data_dir") if by_flag(loaded, name)]
        if stores and self.url:
            raise CommandFailed(f"--url and {stores[0]} exclude each other: each names a fleet", Exit.USAGE)
        if stores or not (self.url or os.environ.get(URL_VARIABLE)):
            if self.token_file is not None:
                raise CommandFailed("--token-file: goes with --url; the store is used without a token", Exit.USAGE)
            return None
        return Connection(self.url, self.token_file, project, os.environ.get(AGENT_VARIABLE))


AT_STORE = ByUrl()
"""The default of the parameter ``by_url`` of commands."""
