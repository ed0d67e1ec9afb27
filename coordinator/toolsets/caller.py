"""The authenticated caller of a request: the principal of a verified bearer token.

What a caller has begun and goes on by itself (workflows, tasks, subscriptions, tokens for claims) is kept with the
caller, credential included; ``coordinator.identity.callers.rights`` says what that credential may do later.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

HOLDERS = "items.admin"
"""The permission to see which agent holds which item, where many are listed."""
BUDGETS = frozenset(("items.budget", "items.admin", "*"))
"""Permissions of which each allows a caller to raise budgets of items."""
DELEGATES = frozenset(("items.delegate", "items.admin", "*"))
"""Permissions of which each allows a caller to get tokens for its claims."""


class OfEntry(msgspec.Struct, frozen=True, array_like=True, tag="entry"):
    """A credential: an entry of the token file."""

    key: str
    """Of the entry; nothing could be used as a token."""


class OfJwt(msgspec.Struct, frozen=True, array_like=True, tag="jwt"):
    """A credential: who issued a JWT to whom. Every JWT that says the same is the same one."""

    name: str
    """A digest of issuer and subject."""
    issuer: str
    """Empty: it names none."""
    source: str
    """A digest of the setting that its keys came from."""
    proof: bool = False
    """Whether it proved who an actor is; else it was a bearer token."""
    stated: tuple[str, ...] | None = None
    """If the server has added permissions: those that the JWT states itself. None: it has added none."""


Credential = OfEntry | OfJwt


class Delegation(msgspec.Struct, frozen=True):
    """The claim that a token was made for; its bearer may do nothing else."""

    project: str
    item: str
    """Its id, in the inner form."""
    fence: int
    ttl_ms: int
    """For how long the claim was made, and so for how long its bearer may renew it."""
    live: bool = True
    """Whether the claim was live when the request came."""
    older: bool = False
    """Whether a newer one had followed."""


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """An authenticated caller; never made from tool arguments."""

    id: str
    """The identity that counts for ownership."""
    kind: str = "external"
    """Actor kind, for calls that name no actor."""
    roles: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    credential: Credential | None = None
    """By which its rights can be looked up again later; None: they stay as they are."""
    sees: frozenset[str] | None = None
    """The projects whose names it may see; None: all."""
    taken: frozenset[str] = frozenset()
    """Ids in the form of its slots that belong to other callers of the token file."""
    claim: Delegation | None = None
    """Of the bearer of a token for one claim, who acts as the agent that holds it and has no permissions of its own."""


class PresentRights(Protocol):
    """What callers may do now, of whom something is kept."""

    async def look(self) -> None:
        """Reads what has changed. Raises ToolFailure: the store does not tell the time."""

    def last(self, caller: Caller, project: str) -> Caller | None:
        """The caller with what it may still do in a project, as last read; None: nothing any more."""
