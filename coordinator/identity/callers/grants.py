"""What a verified credential grants: who its bearer is, and where it is valid."""

from __future__ import annotations

from math import inf
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from coordinator.toolsets.caller import Caller

Reason = Literal[
    "missing", "malformed", "unknown", "expired", "rejected", "audience", "project", "permission", "unavailable"
]
"""Why a request was refused; a label of the metric that counts refusals.

missing: a credential is required; malformed: it is not a bearer token; unknown: there is no such token; rejected: the
token does not verify; audience: it is for another server or endpoint; project, permission: it is not valid for these;
unavailable: it cannot be verified now.
"""

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A verified credential."""

    caller: Caller
    digest: bytes
    """SHA-256 of the token."""
    projects: frozenset[str] | None = None
    """The projects that it is valid in; None: all."""
    audiences: frozenset[str] | None = None
    """Its audiences, in the form of ``canonical``; None: it is valid at every endpoint of this server."""
    until: float = inf
    """Until when it may be kept without being verified again, in Unix seconds."""
    ends: float = inf
    """When it ends for good, in Unix seconds."""


class Denied(Exception):
    """A credential does not grant what was asked for.

    Args:
        description: what is wrong, for the caller; must not hold any part of the credential.
    """

    def __init__(self, reason: Reason, description: str) -> None:
        super().__init__(description)
        self.reason: Reason = reason
        self.description = description


def canonical(uri: str) -> str:
    """An audience in the form that is compared: scheme and host in lower case, no default port, no slash at the end.

    Anything but an http(s) URL is returned as it is.
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
    """The resources that enclose an endpoint: the server, the endpoint itself, and those between.

    Args:
        base: the server's own URL in canonical form.
        path: the endpoint's path below it.
    """
    found = [base]
    for part in path.strip("/").split("/"):
        found.append(f"{found[-1]}/{part}")
    return frozenset(found)
