"""Actors: the actor that a call names, the result of verifying it, and the interface of the resolver that verifies.

Shared by every toolset whose tools take an ``actor``. The resolver itself is in
``coordinator.identity``; handlers get it with their services.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.canonical import NOT_COMPARED
from coordinator.toolsets.doc import doc

KINDS = ("orchestrator", "subagent", "user", "external")
STATUSES = ("absent", "unchecked", "verified", "rejected", "unavailable")
MAX_ID = 500
MAX_PROOF = 10_000


ActorId = Annotated[str, doc("The actor's id.")]
ActorKind = Annotated[str, doc("What it is.", enum=KINDS)]


FILLED_BY_CALLER = {"filled_by_caller": True}
"""``Meta.extra`` of an argument that may be absent only if the caller is authenticated, who is then filled in."""


REFUSED_ALONE = {"refused_alone": True}
"""``Meta.extra`` of a member that is required, but whose absence the tool itself refuses: within a batch, only the
element without it."""


class Actor(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An actor in arguments."""

    id: Annotated[str, doc("Its id.", published={"minLength": 1, "maxLength": MAX_ID}, extra=REFUSED_ALONE)] = ""
    kind: Annotated[ActorKind, Meta(extra=REFUSED_ALONE)] = ""
    parent: Annotated[str | None, doc("Who dispatched it.", published={"maxLength": MAX_ID})] = None
    proof: Annotated[
        str | None, doc("Such as a JWT; never echoed.", published={"maxLength": MAX_PROOF}, extra=NOT_COMPARED)
    ] = None


class CallerActor(Actor, forbid_unknown_fields=True, omit_defaults=True):
    """The authenticated caller as an actor. Its id comes from a verified credential, so it needs no proof.

    Only authentication makes one; arguments never decode to it.
    """


class ActorEcho(msgspec.Struct, omit_defaults=True):
    """An actor in results and records: never with its proof."""

    id: ActorId
    kind: ActorKind
    parent: Annotated[str, doc("Id of the dispatching agent; absent: none given.")] | UnsetType = UNSET


class Verification(msgspec.Struct, omit_defaults=True):
    """The result of verifying an actor's proof."""

    status: Annotated[
        str,
        doc("absent: no proof; unchecked: nobody verifies; unavailable: could not be verified now.", enum=STATUSES),
    ]
    verifier: Annotated[str, doc("Which verifier said so: noop, jwks, bearer.")]
    reason: Annotated[str | None, doc("What went wrong; null: nothing.")]
    metadata: (
        Annotated[dict[str, str], doc("failureKind, verifiedFromCache, cacheAgeSeconds; absent: none.")] | UnsetType
    ) = UNSET


_encode = msgspec.json.Encoder().encode
_actor = msgspec.json.Decoder(ActorEcho).decode
_verification = msgspec.json.Decoder(Verification).decode


class Trusted(msgspec.Struct, frozen=True):
    """An actor after verification and policy."""

    id: str
    """The identity that counts for ownership and idempotency."""
    echo: ActorEcho
    verification: Verification
    caller: Caller | None = None
    """The actor with the roles and permissions of its verified proof; None: it has no such proof."""


class Distrusted(ToolFailure):
    """``rejected_by_policy``: the policy does not trust an actor.

    Args:
        claim: the claimed identity and the verification of its proof, for records that need no trust.
    """

    def __init__(self, message: str, claim: Trusted) -> None:
        super().__init__("rejected_by_policy", message)
        self.claim = claim


class ActorResolver(Protocol):
    """Verifies an actor and applies the degraded-mode policy."""

    async def __call__(self, actor: Actor) -> Trusted:
        """Returns the trusted identity.

        Raises:
            Distrusted: the policy does not trust the actor.
        """
        ...


async def attributed(resolve: ActorResolver, actor: Actor) -> Trusted:
    """The actor for a record. The record shows the result of verification, so no policy applies.

    Never grant anything to an actor resolved like this.
    """
    try:
        return await resolve(actor)
    except Distrusted as distrusted:
        return distrusted.claim


def no_actor(field: str = "actor") -> ToolFailure:
    """The failure of a call that needs an actor and has none, and whose caller is not authenticated either."""
    return invalid(field, f"is required; allowed: an object with {', '.join(Actor.__struct_fields__)}")


def checked(actor: Actor, field: str = "actor") -> Actor:
    """The actor with its kind in lower case and no blank parent, if it is within its limits.

    Raises:
        ToolFailure: VALIDATION_ERROR naming ``<field>.id`` and so on.
    """
    if not actor.id.strip() or len(actor.id) > MAX_ID:
        raise invalid(f"{field}.id", "must be 1 to 500 characters, not blank")
    if actor.kind in KINDS and actor.parent is None and actor.proof is None:
        return actor
    kind = actor.kind.lower()
    if kind not in KINDS:
        raise invalid(f"{field}.kind", f"must be one of {', '.join(KINDS)}")
    if actor.parent is not None and len(actor.parent) > MAX_ID:
        raise invalid(f"{field}.parent", "must be at most 500 characters")
    if actor.proof is not None and len(actor.proof) > MAX_PROOF:
        raise invalid(f"{field}.proof", "must be at most 10000 characters")
    parent = actor.parent if actor.parent and actor.parent.strip() else None
    if (kind, parent) == (actor.kind, actor.parent):
        return actor
    return type(actor)(actor.id, kind, parent, actor.proof)


def stored_actor(text: str) -> ActorEcho | UnsetType:
    """The actor in a record, from its JSON; UNSET if that is empty."""
    return _actor(text) if text else UNSET


def stored_verification(text: str) -> Verification | UnsetType:
    """The verification in a record, from its JSON; UNSET if that is empty."""
    return _verification(text) if text else UNSET


class Attribution(NamedTuple):
    """An actor as scripts record it."""

    id: str
    """The trusted id; '' without an actor."""
    actor: str
    verification: str
    """The result of verifying its proof, as JSON."""


def attribution(who: Trusted | None) -> Attribution:
    """An actor as scripts record it; None: there is none."""
    if who is None:
        return Attribution("", "", "")
    return Attribution(who.id, _encode(who.echo).decode(), _encode(who.verification).decode())


def echo(actor: Actor) -> ActorEcho:
    return ActorEcho(actor.id, actor.kind, UNSET if actor.parent is None else actor.parent)
