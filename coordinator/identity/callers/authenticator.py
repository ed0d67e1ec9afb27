"""Authentication: whether a request's bearer token is valid, and who its bearer is.

There are two kinds of tokens: static ones, whose digests are in a token file, and JWTs, which a verifier checks. The
result is cached under the token's SHA-256 digest (never under the token itself), so the next request with the same
token costs a hash and a look-up (``known``). The token file is read again within two seconds of a change, and a JWT is
verified again when its keys no longer count as fresh. Once a token has expired, by the fleet's time, it is refused,
cached or not.

What a caller may do at which endpoint is not decided here: the ``Grant`` says where the token is valid, and the
transport compares that with the endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import structlog

from coordinator.identity.callers.bearers import Defaults, of_entry, of_outcome
from coordinator.identity.callers.grants import Denied, Grant
from coordinator.identity.callers.rights import Rights
from coordinator.identity.callers.token_file import Stamp, TokenEntry, TokenFileError, read_tokens, stamp_of
from coordinator.identity.clock import FleetClock
from coordinator.identity.metrics import TOKEN_FILE_READS
from coordinator.identity.verifier import Verifier
from coordinator.service import Service, Tasks
from coordinator.settings import Settings
from coordinator.settings.effective_auth import Mode, auth_mode, auth_verifier, authorization_servers, resource_url
from coordinator.settings.sections.identity import VerifierSettings
from coordinator.toolsets.caller import Caller, OfJwt

_log = structlog.get_logger(__name__)

LONGEST_TOKEN = 8_192
"""Bytes."""
LOOK_SECONDS = 1.0
"""How often the token file is checked for changes."""

_STALE_SECONDS = 30.0
"""How long a JWT stays cached if it was verified with keys that could not be renewed."""
MOST_JWTS = 8_192
"""How many verified JWTs are cached."""
GRACE_SECONDS = 10.0
"""How long a replaced verifier still serves the requests that began with it."""

TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*\Z")
"""The syntax of a bearer token (RFC 6750, 2.1)."""
_BEARER = re.compile(rb"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/-]+=*) *\Z")

_UNKNOWN = "no such token is known here"
_DISTRUSTED = "the issuer of the token is not trusted any more"

OpenVerifier = Callable[[VerifierSettings], Verifier]


class Authenticator(Service):
    """Authenticates callers by their bearer tokens, in one process.

    Args:
        open_verifier: makes the verifier of JWTs.
        clock: the fleet's time, by which tokens expire.
        file_read: called with ``ok`` or ``refused`` when a changed token file was read.

    Raises:
        TokenFileError: the token file cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        open_verifier: OpenVerifier,
        clock: FleetClock,
    ) -> None:
        self._open_verifier = open_verifier
        self._clock = clock
        self._settings = settings
        self.rights = Rights(settings)
        """What those may do now of whose callers something is kept."""
        self._entries: tuple[TokenEntry, ...] = ()
        self._grants: dict[bytes, Grant] = {}
        self._jwts: dict[bytes, Grant] = {}
        self._taken: dict[str, frozenset[str]] = {}
        self._path: Path | None = None
        self._stamp: Stamp | None = None
        self._problem = ""
        self._look = asyncio.Event()
        self._tasks = Tasks()
        self._verifier: Verifier | None = None
        self._verified_by: VerifierSettings | None = None
        self.mode: Mode = "none"
        """Whether requests need a token: none (tokens are ignored), optional or required."""
        self.resource = ""
        """The URL that clients know this server by."""
        self.authorization_servers: tuple[str, ...] = ()
        """Where clients can get tokens; empty: nowhere."""
        self.changed: Callable[[], None] = lambda: None
        """Called when tokens were revoked or replaced, or the settings were."""
        self._apply(settings)
        if settings.auth.tokens:
            self._path = Path(settings.auth.tokens)
            found, self._stamp = read_tokens(self._path)
            self._take(found.tokens)
        self._use_verifier(self._wanted_verifier())

    async def start(self) -> None:
        """Starts following the fleet's time, watching the token file and renewing keys."""
        await self._clock.look()
        if self._verifier is not None:
            await self._verifier.start()
        self._tasks.spawn(self._clock.follow(), "fleet's time")
        self._tasks.spawn(self._watch(), "token file")

    async def stop(self, deadline: float = 0.0) -> None:
        await self._tasks.stop()
        if self._verifier is not None:
            await self._verifier.aclose()

    def configure(self, settings: Settings) -> None:
        """Replaces the settings, for every later request, and checks the token file at once."""
        self._apply(settings)
        self._take(self._entries)
        wanted = self._wanted_verifier()
        if wanted != self._verified_by:
            self._tasks.spawn(self._replace_verifier(wanted), "verifier of bearer tokens")
        self._look.set()

    def known(self, token: bytes) -> Grant | None:
        """What a token grants, if that is known without waiting; None: ask ``authenticate``."""
        digest = sha256(token).digest()
        grant = self._grants.get(digest) or self._jwts.get(digest)
        if grant is None or grant.until <= self._clock.now() or not hmac.compare_digest(grant.digest, digest):
            return None
        return grant

    async def authenticate(self, authorization: bytes | None) -> Grant | None:
        """What a request's ``Authorization`` header grants; None: an anonymous caller, and that is allowed.

        Raises:
            Denied: the header is invalid, or it is missing although it is required.
        """
        if authorization is None:
            if self.mode == "required":
                raise Denied("missing", "a bearer token is required")
            return None
        if authorization[:6].lower() != b"bearer":
            raise Denied("missing", "credentials must be a bearer token")
        match = _BEARER.match(authorization)
        if match is None:
            raise Denied("malformed", "the Authorization header must be 'Bearer' and a token")
        token = match["token"]
        if len(token) > LONGEST_TOKEN:
            raise Denied("malformed", f"the token is longer than {LONGEST_TOKEN} bytes")
        grant = self.known(token)
        if grant is not None:
            return grant
        digest = sha256(token).digest()
        if digest in self._grants:
            raise Denied("expired", "the token has expired")
        return await self._verified(token, digest)

    def granted(self, digest: bytes) -> Grant | None:
        """What a token of the token file grants now, by its SHA-256 digest; None: nothing, or no longer."""
        grant = self._grants.get(digest)
        return grant if grant is not None and grant.until > self._clock.now() else None

    def now(self) -> float:
        """The fleet's time in Unix seconds."""
        return self._clock.now()

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """The claims of a JWT, whomever it is for; None: it does not verify, or no verifier is set."""
        verifier = self._verifier
        if verifier is None or not TOKEN.match(token.encode(errors="replace")) or len(token) > LONGEST_TOKEN:
            return None
        outcome = await verifier.verify(token)
        return outcome.claims if outcome.status == "verified" else None

    async def again(self, authorization: bytes | None, begun: Grant, project: str) -> Caller:
        """What the caller may do now whom a token has identified when it began something.

        Args:
            authorization: the header of then.

        Raises:
            Denied: nothing any more.
        """
        caller = begun.caller
        of_jwt = isinstance(caller.credential, OfJwt)
        if of_jwt and begun.ends > self._clock.now():
            await self.authenticate(authorization)  # its key may have been withdrawn
        if self.still(caller, None) is None:
            raise Denied("rejected", _DISTRUSTED) if of_jwt else Denied("unknown", _UNKNOWN)
        found = self.still(caller, project)
        if found is None:
            raise Denied("project", f"the token is not for the project '{project}'")
        return found

    def still(self, caller: Caller, project: str | None) -> Caller | None:
        """``Rights.now`` at this moment."""
        return self.rights.now(caller, project, self._clock.now())

    def report(self) -> dict[str, Any]:
        """The mode, and the state of the token file and of the keys, for /readyz."""
        found: dict[str, Any] = {"mode": self.mode}
        if self._path is not None:
            found["file"] = {"entries": len(self._entries)}
            if self._problem:
                # Anybody may read /readyz, so it shows no directory.
                found["file"]["refused"] = self._problem.replace(str(self._path), self._path.name)
        if self._verifier is not None:
            found["verifier"] = self._verifier.report()
        return found

    async def _verified(self, token: bytes, digest: bytes) -> Grant:
        verifier, settings = self._verifier, self._verified_by
        if verifier is None or settings is None or token.count(b".") != 2:
            raise Denied("unknown", _UNKNOWN)
        outcome = await verifier.verify(token.decode())
        kept = _STALE_SECONDS if outcome.stale_seconds is not None else settings.cache_ttl_seconds
        grant = of_outcome(outcome, digest, self._audience, self._defaults, self._clock.now() + kept)
        grant = self._knowing_others(grant)
        if verifier is self._verifier:
            if len(self._jwts) >= MOST_JWTS:
                self._jwts.clear()
            self._jwts[digest] = grant
        return grant

    def _apply(self, settings: Settings) -> None:
        """Takes over all settings but the token file and the verifier."""
        self._settings = settings
        self._defaults = Defaults.of(settings)
        self.rights.configure(settings)
        stated = auth_verifier(settings)
        self._audience = stated.audience if stated is not None else ""
        self.mode = auth_mode(settings)
        self.resource = resource_url(settings)
        self.authorization_servers = authorization_servers(settings)
        # Cached JWTs were verified under the former settings.
        self._jwts = {}

    def _wanted_verifier(self) -> VerifierSettings | None:
        """The settings that the verifier should have. Without an audience: that is compared with the endpoint later."""
        stated = auth_verifier(self._settings) if self.mode != "none" else None
        longest = self._settings.auth.jwt_longest_seconds
        return None if stated is None else msgspec.structs.replace(stated, audience="", longest_seconds=longest)

    def _use_verifier(self, wanted: VerifierSettings | None) -> None:
        self._verifier = None if wanted is None else self._open_verifier(wanted)
        self._verified_by = wanted
        self._jwts = {}

    async def _replace_verifier(self, wanted: VerifierSettings | None) -> None:
        old = self._verifier
        self._use_verifier(wanted)
        try:
            if self._verifier is not None:
                await self._verifier.start()
            await asyncio.sleep(GRACE_SECONDS)
        finally:
            if old is not None:
                await old.aclose()

    def _take(self, entries: tuple[TokenEntry, ...]) -> None:
        self._entries = entries
        taken: dict[str, set[str]] = {}
        for entry in entries:
            taken.setdefault(entry.id.rpartition("/")[0], set()).add(entry.id)
        self._taken = {owner: frozenset(ids) for owner, ids in taken.items() if owner}
        grants = [self._knowing_others(of_entry(entry, self._defaults.permissions)) for entry in entries]
        self._grants = {grant.digest: grant for grant in grants}
        self.rights.take(zip(entries, grants, strict=True))
        self._jwts = {}
        self.changed()

    def _knowing_others(self, grant: Grant) -> Grant:
        """The grant whose caller cannot act as another caller of the token file."""
        taken = self._taken.get(grant.caller.id)
        if taken is None:
            return grant
        return msgspec.structs.replace(grant, caller=msgspec.structs.replace(grant.caller, taken=taken))

    async def _watch(self) -> None:
        """Reads the token file again whenever it has changed."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look.wait()
            asked = self._look.is_set()
            self._look.clear()
            stated = self._settings.auth.tokens
            path = Path(stated) if stated else None
            if path is None:
                if self._path is not None:
                    self._path, self._stamp, self._problem = None, None, ""
                    self._take(())
            elif asked or path != self._path or stamp_of(path) != self._stamp:
                try:
                    await self.read(path)
                except Exception:
                    # Go on watching: otherwise no token could be revoked any more.
                    _log.exception("the token file was not read")

    async def read(self, path: Path) -> None:
        """Reads a token file and replaces the entries by what it says. If it is wrong, they stay as they are."""
        before = stamp_of(path)
        try:
            # In a thread, because a big YAML file takes seconds.
            found, stamp = await asyncio.to_thread(read_tokens, path)
            if stamp.size == 0 and self._entries:
                raise TokenFileError(f"the token file {path} is empty; 'tokens: []' would revoke all tokens")
        except TokenFileError as error:
            self._stamp, self._path = before, path
            if str(error) != self._problem:
                _log.error("token file refused, the previous tokens stay in force", problem=str(error))
                TOKEN_FILE_READS.labels("refused").inc()
            self._problem = str(error)
            return
        if stamp_of(path) != stamp:
            # It is being written, so this may be only a part of it. The next check finds it changed again.
            return
        changed = found.tokens != self._entries
        self._stamp, self._path, self._problem = stamp, path, ""
        if changed:
            self._take(found.tokens)
            _log.info("token file read", entries=len(found.tokens))
        TOKEN_FILE_READS.labels("ok").inc()
