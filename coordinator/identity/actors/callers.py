"""Resolves actors that are authenticated callers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.toolsets.actor import Actor, ActorResolver, CallerActor, Trusted, Verification, echo

_BY_BEARER = Verification("verified", "bearer", None)


def trusting_callers(others: ActorResolver) -> ActorResolver:
    """A resolver that trusts a caller's credential under every policy.

    Args:
        others: resolves all other actors, and the proofs of callers. A caller's proof must name the caller.
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
