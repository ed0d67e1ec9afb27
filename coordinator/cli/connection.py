"""How commands that call a fleet over HTTP find it, and who they are there."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Group, Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.refusals import as_typed
from coordinator.cli.terminal import operator
from coordinator.client import Fleet, FleetError, Invalid, Unavailable
from coordinator.settings import AGENT_VARIABLE, PROJECT_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE

R = TypeVar("R")

_PLAIN = re.compile(r"[\w-]+", re.ASCII)
"""What can be part of a path; which of these can be a project, the fleet decides."""

PATIENCE_SECONDS = 10.0
"""How long a command that a person waits for repeats a call."""

_GROUP = Group("Connection", help="FLEET_TOKEN holds the bearer token, where the fleet requires one.", sort_key=10)


@Parameter(name="*", group=_GROUP, negative="")
@dataclass(frozen=True)
class Connection:
    """The flags of a command that calls a fleet."""

    url: Annotated[
        str | None,
        Parameter(
            help="Base URL of the fleet. Default: the fleet that runs on the data directory.",
            env_var=URL_VARIABLE,
            show_env_var=True,
        ),
    ] = None
    token_file: Annotated[Path | None, Parameter(help="File with the bearer token, instead of FLEET_TOKEN.")] = None
    project: Annotated[str, Parameter(help="The project.", env_var=PROJECT_VARIABLE)] = "default"
    agent: Annotated[
        str | None,
        Parameter(help="Id of who acts. Default: that of the token, else the user here.", env_var=AGENT_VARIABLE),
    ] = None
    data_dir: Annotated[str | None, Parameter(help="Directory of a fleet on this machine.")] = None

    def token(self) -> str | None:
        """The bearer token; None: there is none.

        Raises:
            CommandFailed: the file cannot be read, or holds no token.
        """
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
        """Where the fleet is.

        Raises:
            CommandFailed: the URL is malformed, or no fleet runs here.
        """
        # Here, because settings and store take long to import, and a URL needs neither.
        from coordinator.cli.checks import check_base_url

        if self.url:
            check_base_url(self.url)
            return self.url.rstrip("/")
        from coordinator.cli.fleetfile import in_use, read_fleet
        from coordinator.settings import load_settings

        data_dir = Path(load_settings({"data_dir": self.data_dir}, os.environ).settings.data_dir)
        if (fleet := read_fleet(data_dir)) is not None:
            return fleet.base_url
        if in_use(data_dir):
            why = f"the fleet on {data_dir} is still starting: try again in a moment"
        else:
            why = f"no fleet runs on {data_dir}: start `fleet up` there, or give --url or {URL_VARIABLE}"
        raise CommandFailed(why, Exit.STORE_UNREACHABLE)

    def open(self, patience: float = PATIENCE_SECONDS) -> Fleet:
        """A client of the fleet.

        Args:
            patience: how long a call is repeated, in seconds.

        Raises:
            CommandFailed: it cannot be said where the fleet is, or who calls.
        """
        if not _PLAIN.fullmatch(self.project):
            # Here, because the store takes long to import, and the fleet checks all other names.
            from coordinator.store.keys import PROJECT_RULE

            raise CommandFailed(f"--project: must be {PROJECT_RULE}", Exit.USAGE)
        token = self.token()
        # With a token, its caller acts; who acts without one can only be said.
        agent = self.agent or ("" if token else operator())
        return Fleet(self.base_url(), token, self.project, agent, kind="user", patience=patience)

    def run(self, act: Callable[[Fleet], Awaitable[R]], patience: float = PATIENCE_SECONDS) -> R:
        """Runs ``act`` with a client of the fleet.

        Raises:
            CommandFailed: the fleet cannot be reached, or refuses a call.
        """

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
