"""The authenticated caller of a request: the principal of a verified bearer token."""

from __future__ import annotations

import msgspec

HOLDERS = "items.admin"
"""The permission to see which agent holds which item, where many are listed."""
BUDGETS = frozenset(("items.budget", "items.admin", "*"))
"""Permissions of which each allows a caller to raise budgets of items."""
DELEGATES = frozenset(("items.delegate", "items.admin", "*"))
"""Permissions of which each allows a caller to get tokens for its claims."""


class Delegation(msgspec.Struct, frozen=True):
    """The claim that a token was made for; its bearer may do nothing else."""

    project: str
    item: str
    """Its id, in the inner form."""
    fence: int
    live: bool = True
    """Whether the claim was live when the request came."""


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """An authenticated caller; never made from tool arguments."""

    id: str
    """The identity that counts for ownership."""
    kind: str = "external"
    """Actor kind, for calls that name no actor."""
    roles: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    listed: bool = False
    """Whether it is in the token file, so its permissions can be checked again later."""
    sees: frozenset[str] | None = None
    """The projects whose names it may see; None: all."""
    taken: frozenset[str] = frozenset()
    """Ids in the form of its slots that belong to other callers of the token file."""
    claim: Delegation | None = None
    """Of the bearer of a token for one claim, who acts as the agent that holds it and has no permissions of its own."""
