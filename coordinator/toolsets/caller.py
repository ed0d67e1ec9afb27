"""Who a connection belongs to: the principal of a verified bearer token."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request as he was authenticated; never made from tool arguments."""

    id: str
    """The identity that ownership counts on."""
    kind: str = "external"
    """Actor kind, for calls that name no actor (seed 004, Actor Attribution)."""
    roles: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    listed: bool = False
    """Known by the token file, which can be asked later what he may do then."""
