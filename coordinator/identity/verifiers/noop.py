"""The verifier that checks nothing: every actor is accepted as it names itself."""

from __future__ import annotations

from typing import Any

from coordinator.identity.verifier import Outcome
from coordinator.toolsets.actor import Actor, Trusted, Verification, echo

NAME = "noop"

_UNCHECKED = Verification("unchecked", NAME, None)
_OUTCOME = Outcome(status="unchecked", verifier=NAME)


async def trust_self_reported(actor: Actor) -> Trusted:
    """Trusts ``actor.id``; the status is ``unchecked`` with or without a proof."""
    return Trusted(actor.id, echo(actor), _UNCHECKED)


class NoopVerifier:
    """Returns ``unchecked`` for every token."""

    name = NAME
    without_token = _OUTCOME

    async def start(self) -> None:
        """Nothing to do."""

    async def verify(self, token: str | None) -> Outcome:
        """``unchecked``, with or without a token."""
        return _OUTCOME

    def report(self) -> dict[str, Any]:
        """Nothing can go wrong."""
        return {"state": "off"}

    async def aclose(self) -> None:
        """Nothing to do."""
