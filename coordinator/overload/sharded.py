"""Admission in front of a store with several shards: each shard has limits, queues and a circuit breaker of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator.errors import ToolFailure
from coordinator.overload.admission import Admission, Ticket
from coordinator.overload.metrics import report
from coordinator.settings.sections.overload import Overload
from coordinator.toolsets.tool import Criticality


class ShardedAdmission:
    """What ``Admission`` offers, with one for each shard: calls to one that is slow or silent take no room from others.
    Methods that say nothing else are as those of ``Admission``, and numbers the sums of all shards.

    Args:
        shard_of: the number of the shard that has a project; -1: none has it.
        settings, clock: as for ``Admission``.
    """

    def __init__(
        self,
        shard_of: Callable[[str], int],
        settings: Overload,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shard_of = shard_of
        self._settings = settings
        self._clock = clock
        self._draining = False
        self.shards: dict[int, Admission] = {}
        """Of the shards that have been called so far, by their numbers."""
        self._of(0)

    def configure(self, settings: Overload) -> None:
        self._settings = settings
        for admission in self.shards.values():
            admission.configure(settings)

    @property
    def draining(self) -> bool:
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = draining
        for one in self.shards.values():
            one.draining = draining

    def probe(self) -> None:
        for admission in self.shards.values():
            admission.probe()

    def enter(self, criticality: Criticality, actor: str, project: str, *, parks: bool = False) -> Ticket | None:
        shard = self._shard_of(project)
        ticket = self._of(shard).enter(criticality, actor, project, parks=parks)
        if ticket is not None:
            ticket.shard = shard
        return ticket

    async def wait(self, criticality: Criticality, actor: str, project: str) -> Ticket:
        shard = self._shard_of(project)
        ticket = await self._of(shard).wait(criticality, actor, project)
        ticket.shard = shard
        return ticket

    def begins(self, ticket: Ticket) -> None:
        self._of(ticket.shard).begins(ticket)

    def leave(self, ticket: Ticket) -> None:
        self._of(ticket.shard).leave(ticket)

    def turns_away(self, criticality: Criticality) -> int:
        """Nothing is shed before the project of a call is known."""
        return 0

    def refusal(self, criticality: Criticality, *, parks: bool = False) -> ToolFailure | None:
        """As ``Admission.refusal``, before the project is known: only what holds of every shard."""
        return self._of(0).barred_by_drain(criticality, parks)

    def store_call(self, seconds: float, ok: bool, project: str) -> None:
        """As ``Admission.store_call``, of the shard of a project or of a partition of ``keys``."""
        self._of(self._shard_of(project)).store_call(seconds, ok)

    @property
    def in_flight(self) -> int:
        return sum(admission.in_flight for admission in self.shards.values())

    @property
    def waiting(self) -> int:
        return sum(admission.waiting for admission in self.shards.values())

    @property
    def parked(self) -> int:
        return sum(admission.parked for admission in self.shards.values())

    @property
    def most(self) -> int:
        return sum(admission.most for admission in self.shards.values())

    def shown(self) -> str:
        """The state of the breakers: that of the shard that is best off."""
        states = [admission.shown() for admission in self.shards.values()]
        return next(state for state in ("closed", "half-open", "open") if state in states)

    def report(self) -> None:
        report(self.in_flight, self.most, self.waiting, self.shown())

    def _of(self, shard: int) -> Admission:
        admission = self.shards.get(shard)
        if admission is None:
            admission = self.shards[shard] = Admission(self._settings, self._clock)
            admission.draining = self._draining
        return admission
