"""The authenticated caller of a request: the principal of a verified bearer token."""

from __future__ import annotations

import msgspec


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
