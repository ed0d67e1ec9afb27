"""Authorization over HTTP: who calls an endpoint, and whether the caller's token permits it.

The answers follow the MCP authorization specification:

- 401 with a ``Bearer`` challenge (RFC 6750), if a token is missing or invalid.
- 403 with ``insufficient_scope``, if a token does not permit the call.

Both name the scope to ask for. If an authorization server is configured, they also name the address of the protected
resource metadata (RFC 9728).

Each endpoint of each project is a resource, nested in the resource of the server as a whole. A token is valid for an
endpoint if its audience is the endpoint or a resource that contains it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from coordinator.errors import ToolFailure
from coordinator.feed.kinds import TOOLSETS
from coordinator.identity.callers.authenticator import LONGEST_TOKEN, TOKEN, Authenticator
from coordinator.identity.callers.grants import Denied, Grant, canonical, enclosing
from coordinator.identity.callers.permissions import least, sufficient, vocabulary
from coordinator.toolsets.caller import Caller
from coordinator.transport.endpoints import Access, Endpoints, Target
from coordinator.transport.fast_path.calls import Plan
from coordinator.transport.http.delegations import PREFIX, Delegations
from coordinator.transport.http.replies import Header, Refused, Scope
from coordinator.transport.metrics import AUTH_REFUSED

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_BEARER = b"Bearer "
_REMEMBERED_PATHS = 4_096
_BUSY_SECONDS = 5
"""Retry delay for clients while no keys are available to verify their tokens."""

_enclosing = lru_cache(maxsize=_REMEMBERED_PATHS)(enclosing)
_canonical = lru_cache(maxsize=16)(canonical)

Admitted = tuple[Grant | None, frozenset[str] | None]
"""What admits a listener, and the toolsets whose events it may read; None: an anonymous caller, and all."""


class Authorization:
    """Applies the authenticator of one process to its endpoints.

    Args:
        authenticator: identifies callers by their tokens.
        longest: bytes of the longest token that the fast path accepts.
        delegations: reads tokens for claims; None: there are none.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        endpoints: Endpoints,
        longest: int,
        delegations: Delegations | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._endpoints = endpoints
        self._longest = min(longest, LONGEST_TOKEN)
        self._delegations = delegations

    @property
    def enabled(self) -> bool:
        """Whether bearer tokens are checked: ``auth.mode`` is not none."""
        return self._authenticator.mode != "none"

    @property
    def anonymous(self) -> bool:
        """Whether requests without a token are served."""
        return self._authenticator.mode != "required"

    def known_caller(self, scope: Scope, plan: Plan) -> Grant | None | Literal[False]:
        """The caller's cached grant.

        Returns:
            None: there is no token, and none is needed. False: not cached, or refused; the slow path decides.
        """
        for name, value in scope["headers"]:
            if name == b"authorization":
                return (self.known_grant(value[7:], plan) or False) if value[:7] == _BEARER else False
        return None if self.anonymous else False

    def known_grant(self, token: bytes, plan: Plan) -> Grant | None:
        """The cached grant of a token, if the token is valid for this endpoint."""
        authenticator = self._authenticator
        if authenticator.mode == "none" or len(token) > self._longest:
            return None
        grant = authenticator.known(token)
        # Digests in a token file are written by people, so one may belong to a malformed token.
        if grant is None or not TOKEN.match(token):
            return None
        if grant.projects is not None and plan.project not in grant.projects:
            return None
        if grant.audiences is not None and grant.audiences.isdisjoint(self._resources(plan.path)):
            return None
        return grant

    async def admit(
        self, authorization: bytes | None, path: str, target: Target, begun: Grant | None = None
    ) -> Grant | None:
        """The grant of an endpoint's caller; None: an anonymous caller, who may use everything.

        Args:
            begun: the grant of then, of a caller who goes on with what it has begun.

        Raises:
            Refused: 401 or 403 with a challenge, 400, or 503.
        """
        if not self.enabled:
            return None
        try:
            grant = await self._grant(authorization, path, target.project, begun)
            if grant is not None and not target.endpoint.admits(grant.caller):
                raise Denied("permission", "the token permits none of the tools of this endpoint")
        except Denied as denied:
            raise self._answer(denied, path, _scope(target)) from None
        return grant

    async def admit_listener(
        self,
        authorization: bytes | None,
        path: str,
        project: str,
        needed: Collection[str] = (),
        begun: Grant | None = None,
    ) -> Admitted:
        """Admits a caller who listens to a project's feed.

        Args:
            begun: what admitted the caller when it began to listen; None: it begins.
            needed: toolsets whose events the caller asks for; none: those that they may read, but at least one.

        Raises:
            Refused: as ``admit``.
        """
        if not self.enabled:
            return None, None
        served = [toolset for toolset in self._endpoints.names if toolset in TOOLSETS]
        scopes = " ".join(least(toolset, True) for toolset in needed or served)
        try:
            grant = await self._grant(authorization, path, project, begun)
            if grant is None:
                return None, None
            permissions = grant.caller.permissions
            readable = frozenset(toolset for toolset in served if not sufficient(toolset, True).isdisjoint(permissions))
            if not readable.issuperset(needed):
                raise Denied("permission", f"the events that are asked for need '{scopes}'")
            if not readable:
                raise Denied("permission", "the token permits none of the tools whose events the feed has")
        except Denied as denied:
            # The metadata are those of the whole server, which the feed is a part of.
            raise self._answer(denied, "", scopes) from None
        return grant, readable

    async def _grant(
        self, authorization: bytes | None, path: str, project: str, begun: Grant | None = None
    ) -> Grant | None:
        """What a token grants at a path of a project; None: there is none, and none is needed. Raises Denied.

        Args:
            begun: what it granted to a caller who has begun something with it, and whose credential may outlive it.
        """
        if begun is not None and begun.caller.claim is None:
            caller = await self._authenticator.again(authorization, begun, project)
            grant: Grant | None = msgspec.structs.replace(begun, caller=caller)
        else:
            grant = await self._authenticate(authorization)
        if grant is None:
            return None
        if grant.audiences is not None and grant.audiences.isdisjoint(self._resources(path)):
            raise Denied("audience", f"the token is for another audience than {self._resource(path)}")
        if begun is None and grant.projects is not None and project not in grant.projects:
            raise Denied("project", f"the token is not for the project '{project}'")
        return grant

    async def _authenticate(self, authorization: bytes | None) -> Grant | None:
        """As ``Authenticator.authenticate``, also for tokens for claims."""
        scheme, _, token = (authorization or b"").partition(b" ")
        if self._delegations is None or scheme.lower() != b"bearer" or not token.startswith(PREFIX):
            return await self._authenticator.authenticate(authorization)
        try:
            return await self._delegations.grant(token)
        except ToolFailure as failure:
            raise Denied("unavailable", failure.message) from None

    async def identify(self, authorization: bytes | None) -> Caller | None:
        """Identifies the caller of an unknown path, because the answer lists what exists; None: an anonymous caller.

        Raises:
            Refused: 401 or 503.
        """
        if not self.enabled:
            return None
        try:
            grant = await self._authenticate(authorization)
            return None if grant is None else grant.caller
        except Denied as denied:
            raise self._answer(denied, "", "") from None

    def check(self, grant: Grant | None, path: str, target: Target, tool: object, request_id: object) -> None:
        """Refuses a call of a tool that the caller may not use.

        Raises:
            Refused: 403 with the permission that the tool needs.
        """
        access: Access | None = target.endpoint.access.get(tool) if isinstance(tool, str) else None
        if grant is not None and access is not None and not access.permits(grant.caller):
            denied = Denied("permission", f"{tool} needs the permission '{access.least}'")
            raise self._answer(denied, path, access.least, request_id)

    async def recheck(
        self, authorization: bytes, begun: Grant, path: str, target: Target, tool: object
    ) -> Caller | None:
        """Checks again, while a call waits, that its caller is still authorized. Returns the caller as it is now; None:
        that cannot be found out.

        Args:
            begun: the grant of its caller when it came.

        Raises:
            ToolFailure: ``unauthenticated`` or ``permission_denied``: the caller no longer is.
        """
        try:
            grant = await self.admit(authorization, path, target, begun)
            self.check(grant, path, target, tool, None)
            return None if grant is None else grant.caller
        except Refused as refused:
            # 503: no keys to verify with, which says nothing about the token.
            if refused.status != 503:
                code = "permission_denied" if refused.status == 403 else "unauthenticated"
                raise ToolFailure(code, str(refused)) from None
            return None

    def metadata(self, path: str) -> dict[str, Any] | None:
        """The protected resource metadata served at ``path``; None: there are none."""
        authenticator = self._authenticator
        if not path.startswith(_WELL_KNOWN) or not self.enabled or not authenticator.authorization_servers:
            return None
        below = path.removeprefix(_WELL_KNOWN)
        # A proxy that serves the fleet below a path prefix may keep the prefix.
        below = below.removeprefix(urlsplit(authenticator.resource).path)
        toolsets = self._endpoints.names
        if below not in ("", "/"):
            target = self._endpoints.resolve(below)
            if not isinstance(target, Target):
                return None
            toolsets = tuple(toolset.name for toolset in target.endpoint.toolsets)
        return {
            "resource": authenticator.resource + below.rstrip("/"),
            "authorization_servers": list(authenticator.authorization_servers),
            "scopes_supported": list(vocabulary(toolsets)),
            "bearer_methods_supported": ["header"],
            "resource_name": "Fleet coordinator",
        }

    def _answer(self, denied: Denied, path: str, scope: str, request_id: object = None) -> Refused:
        AUTH_REFUSED.labels(denied.reason).inc()
        reason, text = denied.reason, denied.description
        if reason == "project":
            # No scope to ask for: none would help.
            return Refused(403, text, request_id=request_id)
        if reason == "unavailable":
            return Refused(503, text, [(b"retry-after", b"%d" % _BUSY_SECONDS)], request_id=request_id)
        if reason == "permission":
            return self._challenge(403, "insufficient_scope", text, path, scope, request_id)
        if reason == "missing":
            # A request without a token gets no error code (RFC 6750, 3.1).
            return self._challenge(401, "", text, path, scope, request_id)
        return self._challenge(401, "invalid_token", text, path, scope, request_id)

    def _challenge(self, status: int, error: str, text: str, path: str, scope: str, request_id: object) -> Refused:
        fields = [("error", error), ("error_description", text if error else ""), ("scope", scope)]
        if self._authenticator.authorization_servers:
            parts = urlsplit(self._resource(path))
            fields.append(("resource_metadata", f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{parts.path}"))
        values = ", ".join(f'{name}="{_quotable(value)}"' for name, value in fields if value)
        header: Header = (b"www-authenticate", f"Bearer {values}".encode())
        return Refused(status, text, [header], request_id=request_id)

    def _resource(self, path: str) -> str:
        return self._authenticator.resource + path.rstrip("/")

    def _resources(self, path: str) -> frozenset[str]:
        return _enclosing(_canonical(self._authenticator.resource), path)


def _scope(target: Target) -> str:
    """The scope that a client of an endpoint should ask for."""
    return " ".join(least(toolset.name, False) for toolset in target.endpoint.toolsets)


def _quotable(text: str) -> str:
    """The text, made safe for a quoted string in a header."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
