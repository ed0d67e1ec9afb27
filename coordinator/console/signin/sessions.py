"""Who a visitor is: signed in by a cookie, or anonymous where the fleet asks nobody for a token.

A session is a sealed cookie, and nothing of it is kept anywhere else. It says how its bearer has signed in:

- by a ticket, as the operator that ``fleet console`` was run by;
- by a token of the token file, which is looked up again at each request: the session ends with it;
- by a JWT: the session has what that granted, as far as the settings still allow it, and ends with it, or after
  ``console.session_hours`` if the authorization server has sent the visitor.

Where ``auth.mode`` is none, everybody may read, and whoever wants to change something signs in by a ticket.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal

import msgspec
import structlog

from coordinator.console.signin.cookies import Cookie
from coordinator.console.signin.tickets import spend_ticket
from coordinator.console.viewer import PERSON, Viewer
from coordinator.errors import ToolFailure
from coordinator.identity.callers.authenticator import Authenticator
from coordinator.identity.callers.grants import Denied, Grant, canonical
from coordinator.identity.callers.permissions import ALL_RIGHTS
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller, OfEntry
from coordinator.toolsets.gateway import HUMAN
from coordinator.transport.http.replies import Header
from coordinator.transport.metrics import AUTH_REFUSED
from coordinator.transport.rounds.sealing import Seals

_log = structlog.get_logger(__name__)

_PURPOSE = "console-session"
_LONGEST = 3_800
"""Bytes of a cookie that every browser takes."""
_AN_HOUR = 3_600


class _Session(msgspec.Struct, array_like=True):
    how: Literal["ticket", "token", "jwt"]
    ends: float
    """In Unix seconds."""
    name: str = ""
    """Of the operator, by a ticket."""
    digest: bytes = b""
    """Of the token, by a token of the token file."""
    caller: Caller | None = None
    """What a JWT granted, and where."""
    projects: frozenset[str] | None = None


class Sessions:
    def __init__(self, store: Store, seals: Seals, authenticator: Authenticator, settings: Settings) -> None:
        self._store = store
        self._seals = seals
        self._authenticator = authenticator
        self._seconds = settings.console.session_hours * _AN_HOUR
        self._cookie = Cookie("session", settings)

    @property
    def takes_tokens(self) -> bool:
        """Whether one can sign in by a token."""
        return self._authenticator.mode != "none"

    def over_https(self, head: Mapping[bytes, bytes]) -> bool:
        """Whether the visitor has to come over HTTPS."""
        return self._cookie.over_https(head)

    async def viewer(self, head: Mapping[bytes, bytes]) -> Viewer | None:
        """The visitor behind a request; None: they have to sign in."""
        session = await self._session(head)
        viewer = self._viewer(session) if session is not None else None
        return viewer or (Viewer() if self._authenticator.mode != "required" else None)

    async def by_ticket(self, head: Mapping[bytes, bytes], text: str) -> Header | None:
        """Signs in by a ticket: the header that sets the cookie; None: the ticket is not valid."""
        name = await spend_ticket(self._store, self._seals, text)
        return None if name is None else await self._begun(head, _Session("ticket", self._end(), name=name))

    async def by_token(self, head: Mapping[bytes, bytes], token: str, *, lasting: bool = False) -> Header | None:
        """Signs in by a bearer token: the header that sets the cookie; None: the token is not valid here.

        Args:
            lasting: whether the session outlives a JWT, because an authorization server knows the person.
        """
        grant = await self._grant(token)
        if grant is None:
            return None
        if isinstance(grant.caller.credential, OfEntry):
            return await self._begun(head, _Session("token", self._end(grant.ends), digest=grant.digest))
        ends = self._end(inf if lasting else grant.ends)
        caller = msgspec.structs.replace(grant.caller, sees=grant.projects)
        return await self._begun(head, _Session("jwt", ends, caller=caller, projects=grant.projects))

    def over(self, head: Mapping[bytes, bytes]) -> Header:
        return self._cookie.set(head, self._store.identity.known, "", 0)

    async def _grant(self, token: str) -> Grant | None:
        if not self.takes_tokens:
            return None
        try:
            grant = await self._authenticator.authenticate(b"Bearer " + token.encode())
        except Denied as denied:
            AUTH_REFUSED.labels(denied.reason).inc()
            if denied.reason == "unavailable":
                raise ToolFailure("store_unavailable", denied.description, retry_after_ms=5_000) from None
            return None
        if grant is None or (
            grant.audiences is not None and canonical(self._authenticator.resource) not in grant.audiences
        ):
            AUTH_REFUSED.labels("audience").inc()
            return None
        return grant

    def _end(self, latest: float = inf) -> float:
        return min(self._authenticator.now() + self._seconds, latest)

    async def _begun(self, head: Mapping[bytes, bytes], session: _Session) -> Header:
        text = await self._seals.seal(self._purpose(head), msgspec.msgpack.encode(session))
        if len(text) > _LONGEST:
            raise ToolFailure("VALIDATION_ERROR", "the token names more roles, permissions or projects than fit")
        who = self._viewer(session)
        _log.info("somebody has signed in to the console", name=who.name if who is not None else "", by=session.how)
        seconds = max(1, int(session.ends - self._authenticator.now()))
        return self._cookie.set(head, self._store.identity.known, text, seconds)

    async def _session(self, head: Mapping[bytes, bytes]) -> _Session | None:
        text = self._cookie.read(head, self._store.identity.known)
        if not text:
            return None
        sealed = await self._seals.open(self._purpose(head), text)
        session = None if sealed is None else msgspec.msgpack.decode(sealed, type=_Session)
        return session if session is not None and session.ends > self._authenticator.now() else None

    def _viewer(self, session: _Session) -> Viewer | None:
        if session.how == "ticket":
            return Viewer(Caller(session.name, PERSON, frozenset((HUMAN,)), ALL_RIGHTS), ends=session.ends)
        if not self.takes_tokens:
            return None
        if session.how == "jwt":
            caller = None if session.caller is None else self._authenticator.still(session.caller, None)
            return None if caller is None else Viewer(caller, session.projects, session.ends)
        grant = self._authenticator.granted(session.digest)
        return None if grant is None else Viewer(grant.caller, grant.projects, min(session.ends, grant.ends))

    def _purpose(self, head: Mapping[bytes, bytes]) -> str:
        return f"{_PURPOSE}:{self._seals.audience}:{self._cookie.audience(head, self._store.identity.known)}"
