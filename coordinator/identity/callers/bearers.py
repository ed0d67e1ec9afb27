"""Makes the ``Grant`` of a bearer token: from its entry in the token file, or from the outcome of its verification."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from coordinator.identity.callers.credentials import name_of
from coordinator.identity.callers.grants import Denied, Grant, canonical
from coordinator.identity.callers.permissions import EVERYTHING, OPERATE
from coordinator.identity.callers.token_file import TokenEntry
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.model import TOOLSETS
from coordinator.toolsets.actor import KINDS, MAX_ID
from coordinator.toolsets.caller import Caller, OfEntry, OfJwt

CLAIMS = ("permissions", "scope", "scp")
"""Where JWTs state permissions: as text with blanks between, or as a list."""
ALL_PROJECTS = "*"
_OTHER = "external"
_OWN = frozenset((EVERYTHING, OPERATE, "workflow", *TOOLSETS))
"""How permissions of this server begin."""


class Defaults(NamedTuple):
    """What a token permits that states no permissions of this server."""

    permissions: frozenset[str]
    stated: bool = True
    """Whether the operator has set them. Only then do they apply to a JWT with scopes of other servers alone."""
    connections: frozenset[str] = frozenset()
    """Names that permissions may begin with, besides those of toolsets."""

    @classmethod
    def of(cls, settings: Settings) -> Defaults:
        """Those of bearer tokens."""
        auth = settings.auth
        stated = auth.default_permissions is not None
        return cls(auth.permissions_by_default, stated, frozenset(settings.connections or ()))


EVERYTHING_BY_DEFAULT = Defaults(frozenset({EVERYTHING}), stated=False)
"""Those of proofs."""


def of_entry(entry: TokenEntry, default_permissions: frozenset[str]) -> Grant:
    """What an entry of the token file grants."""
    permissions = default_permissions if entry.permissions is None else frozenset(entry.permissions)
    projects = _projects(entry.projects)
    ends = inf if entry.expires is None else entry.expires.timestamp()
    return Grant(
        caller=Caller(entry.id, entry.kind, frozenset(entry.roles), permissions, OfEntry(entry.key), projects),
        digest=bytes.fromhex(entry.sha256),
        projects=projects,
        until=ends,
        ends=ends,
    )


def of_outcome(outcome: Outcome, digest: bytes, audience: str, defaults: Defaults, latest: float) -> Grant:
    """What a verified JWT grants.

    Args:
        audience: a token for this audience is good for the whole server; empty: there is no such audience.
        latest: until when the grant may be kept without verifying the token again, in Unix seconds.

    Raises:
        Denied: the token was not verified, or its claims are unusable.
    """
    if outcome.status == "unavailable":
        raise Denied("unavailable", "the token cannot be verified now: there are no keys to verify it with")
    if outcome.status != "verified":
        raise Denied("rejected", f"the token does not verify: {outcome.reason}")
    claims = outcome.claims
    projects = _projects(_words(claims, "projects"))
    audiences: frozenset[str] | None = frozenset(map(canonical, _words(claims, "aud") or ()))
    if audience and canonical(audience) in (audiences or ()):
        audiences = None
    # The bearer of a token for some endpoints only learns of no other project.
    sees = projects if audiences is None else frozenset[str]()
    ends = inf if outcome.expires is None else outcome.expires
    return Grant(
        caller=msgspec.structs.replace(caller_of(outcome, defaults), sees=sees),
        digest=digest,
        projects=projects,
        audiences=audiences,
        until=min(ends, latest),
        ends=ends,
    )


def caller_of(outcome: Outcome, defaults: Defaults, *, proof: bool = False) -> Caller:
    """The caller that a verified JWT names, with the roles and permissions that it states.

    Args:
        proof: whether it proves who an actor is.

    Raises:
        Denied: its claims are unusable.
    """
    subject, kind = outcome.subject, outcome.claims.get("kind")
    if not subject.strip() or len(subject) > MAX_ID:
        raise Denied("rejected", f"the token has no claim 'sub' of 1 to {MAX_ID} characters")
    issuer = outcome.claims.get("iss")
    issuer = issuer if isinstance(issuer, str) else ""
    stated = _permissions(outcome.claims)
    own = stated is not None and (not stated or any(_is_ours(word, defaults.connections) for word in stated))
    added = None if own else tuple(sorted(stated or ()))
    return Caller(
        subject,
        kind if kind in KINDS else _OTHER,
        _words(outcome.claims, "roles") or frozenset(),
        stated if stated is not None and own else with_defaults(stated or frozenset(), defaults),
        OfJwt(name_of(issuer, subject), issuer, outcome.source, proof, added),
    )


def with_defaults(stated: frozenset[str], defaults: Defaults) -> frozenset[str]:
    """What a JWT permits that states no permissions of this server, but perhaps scopes of others."""
    if not stated:
        return defaults.permissions
    # Only the operator knows what a token for other servers permits here.
    return stated | defaults.permissions if defaults.stated else stated


def unreadable(claims: Mapping[str, Any]) -> str:
    """Why roles or permissions of a verified token cannot be read; empty: they can."""
    try:
        _words(claims, "roles")
        for name in CLAIMS:
            _stated(claims, name)
    except Denied as denied:
        return denied.description
    return ""


def _permissions(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """All that the claims state; None if they state none."""
    stated = [words for name in CLAIMS if (words := _stated(claims, name)) is not None]
    return frozenset().union(*stated) if stated else None


def _stated(claims: Mapping[str, Any], name: str) -> frozenset[str] | None:
    """The words of a claim that is text with blanks between them, or a list; None if it is missing."""
    value = claims.get(name)
    if isinstance(value, str):
        return frozenset(value.split())
    found = _words(claims, name)
    return None if found is None else frozenset(word for one in found for word in one.split())


def _is_ours(word: str, connections: frozenset[str]) -> bool:
    head = word.partition(".")[0]
    return head in _OWN or head in connections


def _words(claims: Mapping[str, Any], name: str) -> frozenset[str] | None:
    """A claim that is a text or a list of texts; None if it is missing.

    Raises:
        Denied: it is something else.
    """
    value = claims.get(name)
    if value is None:
        return None
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) and one for one in values):
        raise Denied("rejected", f"the token's claim {name!r} is neither text nor a list of texts")
    return frozenset(values)


def _projects(names: frozenset[str] | tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None or ALL_PROJECTS in names else frozenset(names)
