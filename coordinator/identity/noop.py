"""The verifier that checks nothing: every actor is accepted as it names itself (seed 004, noop)."""

from __future__ import annotations

from coordinator.toolsets.actor import Actor, Trusted, Verification, echo

_UNCHECKED = Verification("unchecked", "noop")


async def trust_self_reported(actor: Actor) -> Trusted:
    """Trusts ``actor.id``; the status is ``unchecked`` with or without a proof."""
    return Trusted(actor.id, echo(actor), _UNCHECKED)
