"""What a credential may do now: that of a caller who has begun something that goes on without it.

A workflow, an operation of the gateway, a task, a subscription and a token for a claim are kept with the caller who
began it. It has the rights that the caller's credential had then and has now, never those of another one for the
same id:

- an entry of the token file, or the one that replaces it (``TokenEntry.replaces``), has those that it states now,
  until it expires;
- a JWT has those that it stated, with what the settings add now, as long as they trust its issuer. It may have expired
  itself, because its bearer gets others.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from coordinator.identity.callers.bearers import EVERYTHING_BY_DEFAULT, Defaults, with_defaults
from coordinator.identity.callers.credentials import trusts
from coordinator.identity.callers.grants import Grant
from coordinator.identity.callers.permissions import common
from coordinator.identity.callers.token_file import TokenEntry
from coordinator.settings import Settings
from coordinator.settings.effective_auth import auth_verifier
from coordinator.toolsets.caller import Caller, Credential, OfJwt


class Rights:
    """The rights under some settings and a token file. It reads nothing itself."""

    def __init__(self, settings: Settings) -> None:
        self._grants: dict[str, Grant] = {}
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._defaults = Defaults.of(settings)
        self._bearers = auth_verifier(settings)
        self._proofs = settings.actor_authentication.verifier

    def take(self, granted: Iterable[tuple[TokenEntry, Grant]]) -> None:
        """Takes over the entries of the token file, and what they grant."""
        found = list(granted)
        self._grants = {entry.key: grant for entry, grant in found}
        self._grants |= {key: grant for entry, grant in found for key in entry.replaces}

    def now(self, caller: Caller, project: str | None, at: float) -> Caller | None:
        """A caller with the rights that it has still; None: none any more.

        Args:
            project: where; None: anywhere.
            at: the fleet's time, in Unix seconds.
        """
        credential = caller.credential
        if credential is None:
            return caller
        if isinstance(credential, OfJwt):
            return self._of_jwt(caller, credential)
        grant = self._grants.get(credential.key)
        if grant is None or grant.caller.id != caller.id or grant.until <= at:
            return None
        if project is not None and grant.projects is not None and project not in grant.projects:
            return None
        return cut(msgspec.structs.replace(grant.caller, kind=caller.kind, credential=credential), caller)

    def same(self, some: Caller | None, other: Caller | None) -> bool:
        """Whether two callers have the same credential, or one has that by which the other's was replaced."""
        if some is None or other is None:
            return some is other
        claims = [(one.claim.item, one.claim.fence) if one.claim is not None else None for one in (some, other)]
        return (
            some.id == other.id
            and claims[0] == claims[1]
            and self._in_force(some.credential) == self._in_force(other.credential)
        )

    def _in_force(self, credential: Credential | None) -> object:
        """What callers with the same credential have in common."""
        if isinstance(credential, OfJwt):
            return credential.name
        grant = self._grants.get(credential.key) if credential is not None else None
        return credential if grant is None else grant.caller.credential

    def _of_jwt(self, caller: Caller, credential: OfJwt) -> Caller | None:
        verifier = self._proofs if credential.proof else self._bearers
        if not trusts(verifier, credential):
            return None
        if credential.stated is None:
            return caller
        defaults = EVERYTHING_BY_DEFAULT if credential.proof else self._defaults
        permitted = with_defaults(frozenset(credential.stated), defaults)
        return msgspec.structs.replace(caller, permissions=common(caller.permissions, permitted))


def cut(caller: Caller, began: Caller) -> Caller:
    """A caller with no more rights than it had when it began something."""
    roles, permissions = caller.roles & began.roles, common(caller.permissions, began.permissions)
    if (roles, permissions) == (caller.roles, caller.permissions):
        return caller
    return msgspec.structs.replace(caller, roles=roles, permissions=permissions)
