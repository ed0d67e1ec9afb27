"""What creators of runs may do now. This is looked up before each step, not only when the run is created."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import structlog

from coordinator.identity.callers.bearers import of_entry
from coordinator.identity.callers.rights import Rights
from coordinator.identity.callers.token_file import Stamp, TokenEntry, TokenFileError, read_tokens, stamp_of
from coordinator.identity.clock import FleetClock
from coordinator.settings import Settings
from coordinator.toolsets.caller import Caller

_log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often the token file and the clock are read while there are steps to check."""


class WorkerRights:
    """Follows the token file (``coordinator.toolsets.caller.PresentRights``).

    Args:
        clock: decides which tokens have expired, as in authentication.
    """

    def __init__(self, settings: Settings, clock: FleetClock) -> None:
        self._clock = clock
        self._rights = Rights(settings)
        self._reading = asyncio.Lock()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies new settings. The token file is read again before the next check."""
        self._path = Path(settings.auth.tokens) if settings.auth.tokens else None
        self._default = settings.auth.permissions_by_default
        self._rights.configure(settings)
        self._stamp: Stamp | None = None
        self._looked = float("-inf")
        if self._path is None:
            self._take(())

    def last(self, caller: Caller, project: str) -> Caller | None:
        """The caller with what it may still do in a project, as last read; None: nothing any more."""
        return self._rights.now(caller, project, self._clock.now())

    async def look(self) -> None:
        """Reads the file again if it has changed. A file with an error changes nothing."""
        path = self._path
        if path is None or monotonic() - self._looked < LOOK_SECONDS:
            return
        async with self._reading:
            if monotonic() - self._looked < LOOK_SECONDS:
                return
            await self._clock.look()
            stamp = await asyncio.to_thread(stamp_of, path)
            if stamp != self._stamp:
                try:
                    file, self._stamp = await asyncio.to_thread(read_tokens, path)
                except TokenFileError as error:
                    _log.warning("the token file cannot be used; the previous tokens stay in force", reason=str(error))
                    self._stamp = stamp
                else:
                    self._take(file.tokens)
            self._looked = monotonic()

    def _take(self, entries: tuple[TokenEntry, ...]) -> None:
        self._rights.take((entry, of_entry(entry, self._default)) for entry in entries)
