"""Trust in callers whom the front door has identified."""

from __future__ import annotations

from coordinator.toolsets.actor import Actor, ActorResolver, CallerActor, Trusted, Verification, echo

_BY_BEARER = Verification("verified", "bearer")


def trusting_callers(others: ActorResolver) -> ActorResolver:
    """A resolver to which a caller is who his credential says, under every policy.

    Args:
        others: resolves actors that only name themselves, or that bring a proof.
    """

    async def resolve(actor: Actor) -> Trusted:
        if type(actor) is CallerActor and actor.proof is None:
            return Trusted(actor.id, echo(actor), _BY_BEARER)
        return await others(actor)

    return resolve
