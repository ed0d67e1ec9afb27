"""The place of a job in the loop that it came from: what it tells the loop, and what the loop says to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

from coordinator.client.renewals import KeptClaim

J = TypeVar("J", contravariant=True)
Outcome = Literal["done", "failed", "gave_up", "hopeless", "handed_back", "blocked", "asked", "lost"]
"""How a job ended. ``failed``, ``gave_up`` and ``hopeless`` count as attempts; ``lost``: its claim is over."""


class Seat(Protocol[J]):
    """Of a job ``J``."""

    telling: asyncio.Lock
    """For calls about the job and those before it, one at a time."""

    def keep(self, job: J) -> KeptClaim:
        """The claim of the job as it is to be renewed."""

    def next_claim(self, outcome: Outcome, asked: bool) -> Mapping[str, Any]:
        """What a call that ends the job claims the next one with; empty: nobody waits for one, or is to get one.

        Args:
            asked: whether the work says that there is to be a next one.
        """

    def heard(self, answer: Mapping[str, Any], sent: float) -> None:
        """The answer to a call with that."""

    def unheard(self, arguments: dict[str, Any], sent: float, requests: int) -> None:
        """Such a call has had no answer, and the job has ended; when it was sent, and how many requests before."""

    def leaves(self, released: dict[str, Any]) -> bool:
        """Whether the next claim says that the job is released, or a call of its own in a moment."""

    def freed(self, job: J) -> None:
        """The job has ended."""
