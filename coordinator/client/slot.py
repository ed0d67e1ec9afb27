"""A slot: one of the agents of a fleet, and the loop that its job came from, as a job sees both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

from coordinator.client.renewals import KeptClaim

J = TypeVar("J")
Outcome = Literal["done", "failed", "gave_up", "hopeless", "handed_back", "blocked", "asked", "lost"]
"""How a job ended. ``failed``, ``gave_up`` and ``hopeless`` count as attempts; ``lost``: its claim is over."""


class Slot(Generic[J]):
    """One of the agents of a fleet. It does one job ``J`` at a time, because an agent holds one claim."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.actor: dict[str, str] = {}
        """Whoever holds its claims, as renewals name it; empty: it has had none yet."""
        self.telling = asyncio.Lock()
        """For calls about its jobs, one at a time."""
        self.last_word: dict[str, Any] | None = None
        """The release of its last job, which the next claim makes."""
        self.promised = False
        """Whether somebody waits for what the end of its job claims."""
        self.granted: tuple[dict[str, Any], float] | None = None
        """A claim that has come with the end of its last job, and when it was asked for."""
        self.coming: tuple[J, Loop[J]] | None = None
        """The job that this has become, until the loop that it is for takes it."""
        self.found_none = False
        """Whether the end of its last job has claimed in vain."""
        self.unseen: tuple[dict[str, Any], float, int] | None = None
        """Arguments of a claim whose answer was not seen, when it was made, and how many requests were sent before."""
        self.rest = 0.0
        """Seconds until it is to claim again, because a budget is spent."""
        self.why = ""
        """The budget that kept it from claiming last; empty: none did."""


class Loop(Protocol[J]):
    """A loop over jobs ``J``, as its slots and their jobs see it."""

    event_loop: asyncio.AbstractEventLoop | None
    """That it runs in; to ask for it takes a system call each time, in some versions of Python."""

    def end(self) -> None:
        """No further jobs; those that run go on."""

    def offer(self, slot: Slot[J]) -> None:
        """Gives a slot with a job to whoever waits in this loop."""

    def give_back_unbegun(self, job: J, slot: Slot[J]) -> None:
        """Nobody has begun to work on a job for long."""

    def keep(self, slot: Slot[J], granted: Mapping[str, Any], sent: float) -> KeptClaim:
        """The claim of a job as it is to be renewed.

        Args:
            granted: its result, as ``claim_item`` tells it.
            sent: when it was asked for, as ``renewals.now()``.
        """

    def next_claim(self, slot: Slot[J], outcome: Outcome, asked: bool) -> Mapping[str, Any]:
        """What a call that ends the job of a slot claims the next one with; empty: nobody waits for one, or is to get
        one. What is claimed is promised to one of those who wait, until ``free`` is called.

        Args:
            asked: whether the work says that there is to be a next one.
        """

    def hear(self, slot: Slot[J], result: dict[str, Any], sent: float) -> None:
        """What such a call has claimed."""

    def leave(self, slot: Slot[J], released: dict[str, Any]) -> bool:
        """Whether the next claim of a slot says that its job is released, or a call of its own in a moment."""

    def free(self, job: J, slot: Slot[J]) -> None:
        """The job of a slot has ended."""
