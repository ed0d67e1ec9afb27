"""What creators of workflows may do now. This is checked before each step, not only when the workflow is created."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import msgspec
import structlog

from coordinator.identity.bearers import of_entry
from coordinator.identity.clock import FleetClock
from coordinator.identity.grants import Grant
from coordinator.identity.token_file import Stamp, TokenFileError, read_tokens, stamp_of
from coordinator.settings import Settings
from coordinator.toolsets.caller import Caller

_log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often the token file and the clock are read while there are steps to check."""


class Rights:
    """Looks callers up in the token file.

    Callers that came with a JWT keep the permissions that it stated when they created the workflow, because its issuer
    cannot be asked again.

    Args:
        clock: decides which tokens have expired, as in authentication.
    """

    def __init__(self, settings: Settings, clock: FleetClock) -> None:
        self._clock = clock
        self._grants: dict[str, list[Grant]] = {}
        self._reading = asyncio.Lock()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies new settings. The token file is read again before the next check."""
        self._path = Path(settings.auth.tokens) if settings.auth.tokens else None
        self._default = settings.auth.permissions_by_default
        self._stamp: Stamp | None = None
        self._looked = float("-inf")
        if self._path is None:
            self._grants = {}

    async def now(self, project: str, creator: Caller) -> Caller | None:
        """The caller with their present permissions and roles in a project; None if they have none any more."""
        if not creator.listed:
            return creator
        await self._look()
        good = [
            grant
            for grant in self._grants.get(creator.id, ())
            if grant.until > self._clock.now() and (grant.projects is None or project in grant.projects)
        ]
        if not good:
            return None
        return msgspec.structs.replace(
            creator,
            roles=frozenset().union(*(grant.caller.roles for grant in good)),
            permissions=frozenset().union(*(grant.caller.permissions for grant in good)),
        )

    async def _look(self) -> None:
        """Reads the file again if it changed. A file with an error changes nothing."""
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
                    found, self._stamp = await asyncio.to_thread(read_tokens, path)
                except TokenFileError as error:
                    _log.warning("the token file cannot be used; the previous tokens stay in force", reason=str(error))
                    self._stamp = stamp
                else:
                    self._grants = {}
                    for entry in found.tokens:
                        self._grants.setdefault(entry.id, []).append(of_entry(entry, self._default))
            self._looked = monotonic()
