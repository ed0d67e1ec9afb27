"""Trust in callers who have been authenticated."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.toolsets.actor import Actor, ActorResolver, CallerActor, Trusted, Verification, echo

_BY_BEARER = Verification("verified", "bearer")


def trusting_callers(others: ActorResolver) -> ActorResolver:
    """A resolver to which a caller is who his credential says, under every policy.

    Args:
        others: resolves actors that only name themselves, or that bring a proof. The proof of a caller is
            looked at as that of anybody, and cannot make him somebody else.
    """

    def resolve(actor: Actor) -> Coroutine[Any, Any, Trusted]:
        return of_caller(actor) if type(actor) is CallerActor else others(actor)

    async def of_caller(actor: CallerActor) -> Trusted:
        if actor.proof is None:
            return Trusted(actor.id, echo(actor), _BY_BEARER)
        trusted = await others(actor)
        if trusted.id != actor.id:
            raise ToolFailure("actor_mismatch", "actor.proof: names somebody else than the caller")
        return trusted

    return resolve
