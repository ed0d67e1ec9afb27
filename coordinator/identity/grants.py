"""What a verified credential grants: who its bearer is, and where it is good for."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from coordinator.toolsets.caller import Caller

Reason = Literal[
    "missing", "malformed", "unknown", "expired", "rejected", "audience", "project", "permission", "unavailable"
]
"""Why a request was not let in; a label of the metric that counts it.

missing: no credential where one is required; malformed: not a bearer token; unknown: no such token; rejected: the
token does not verify; audience: it is for somebody else; unavailable: it cannot be verified now.
"""

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A verified credential."""

    caller: Caller
    digest: bytes
    """SHA-256 of the token."""
    projects: frozenset[str] | None = None
    """Where it is good for; None: in every project."""
    audiences: frozenset[str] | None = None
    """Whom it is for, in the form of ``canonical``; None: for this server, whatever the endpoint."""
    until: float = inf
    """Unix seconds."""


class Denied(Exception):
    """A credential does not grant what was asked for.

    Args:
        description: for the caller: what is wrong, with no part of the credential in it.
    """

    def __init__(self, reason: Reason, description: str) -> None:
        super().__init__(description)
        self.reason: Reason = reason
        self.description = description


def canonical(uri: str) -> str:
    """An audience as it is compared: scheme and host in lower case, no default port, no slash at the end.

    What is no http(s) URL is compared as it is.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.netloc:
        return uri
    authority = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[scheme])
    rest = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{authority}{parts.path.rstrip('/')}{rest}"


def enclosing(base: str, path: str) -> frozenset[str]:
    """The resources that an endpoint is part of: the server, the endpoint itself, and what lies between.

    Args:
        base: the server's own URL in canonical form.
        path: the endpoint's path below it.
    """
    found = [base]
    for part in path.strip("/").split("/"):
        found.append(f"{found[-1]}/{part}")
    return frozenset(found)


def named(values: Iterable[object]) -> frozenset[str]:
    """Those of the values that are non-empty text."""
    return frozenset(value for value in values if isinstance(value, str) and value)
