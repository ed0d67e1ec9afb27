"""Measurements of a project's items, for metrics."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import msgspec

from coordinator.settings.sections.resources import Limit
from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.store.base import LIBRARY, pack

EMPTY_SECONDS = 3_600
"""How long a project without items is still measured: well above ``lists.NOTED_SECONDS``."""
PROJECTS = 1_000
"""How many projects are measured: the last changed ones."""
ENDS = {"c": "completed", "r": "released", "e": "expired"}
"""Letter in ``lua/claims/holds.lua`` -> how a claim ended."""
RESOURCES = 50
"""How many resources are measured: the first ones of the settings."""
_ONE = 2**44
"""``lua/claims/holds.lua`` packs two numbers into one: each claim adds this, plus the milliseconds that it was held."""


class Held(NamedTuple):
    """Claims that have ended in one way."""

    end: str
    counts: dict[int, int]
    """How many, by bucket from 0."""
    seconds: float
    """The sum of the times they were held."""


class Lost(NamedTuple):
    """How contended the ended claims were."""

    counts: dict[int, int]
    """Claims by number of losers (callers whose claim failed meanwhile), in buckets; bucket 0: no losers."""
    losers: int
    """The losers of all these claims."""


class Left(NamedTuple):
    id: str
    since: int
    """When it was left, in ms."""
    waits: bool
    """Whether it waits for a dependency, or is in back-off."""


class Abandoned(NamedTuple):
    now: int
    ready: int
    """How many can be taken over."""
    waiting: int
    """How many wait for a dependency."""
    oldest: int
    """When the longest abandoned available item was left, in ms; 0: there is none."""
    items: list[Left]
    """The longest abandoned items; those that wait for a dependency last."""

    @property
    def oldest_seconds(self) -> float:
        """The age of the longest abandonment; 0: there is none."""
        return max(0.0, (self.now - self.oldest) / 1000) if self.oldest else 0.0


class ResourceLevel(NamedTuple):
    """What the claims of a project hold of a resource."""

    exclusive: int
    """Units that exclusive claims hold of it, or of keys below it."""
    shared: int
    """Shared claims of it, or of keys below it."""
    left: float
    """Units that can be taken now, of those per minute; -1: there is no such bound."""
    reservations: int
    """Items for which it is reserved."""
    waiting: int
    """Ready items that demand more of it than is free."""
    waited_ms: int
    """For how long callers have passed over those of them that have waited longest."""

    @classmethod
    def unused(cls, limit: Limit) -> ResourceLevel:
        """That of a resource that no item has demanded yet."""
        return cls(0, 0, limit.capacity if limit.per_minute else -1, 0, 0, 0)

    def joined(self, other: ResourceLevel) -> ResourceLevel:
        """Of two projects together: what is most of it held, and what is least left."""
        return ResourceLevel(
            max(self.exclusive, other.exclusive),
            max(self.shared, other.shared),
            min(self.left, other.left),
            self.reservations + other.reservations,
            self.waiting + other.waiting,
            max(self.waited_ms, other.waited_ms),
        )


class Shares(NamedTuple):
    """The share of a budget that is spent; -1: there is none."""

    day: float
    total: float


class BudgetShares(NamedTuple):
    """The budgets that the settings give in a project."""

    project: Shares
    agents: list[tuple[str, float, float]]
    """By name, of the agents last seen: the greatest shares of the day, and in total."""


class Measures(NamedTuple):
    """The measurements of one project."""

    roles: dict[str, int]
    oldest_seconds: float
    """Age of the oldest item in the queue that agents are offered; 0: there is none."""
    held: list[Held]
    """Claims that have ended since the last measurement."""
    lost: Lost
    """How contended these claims were."""
    abandoned: int
    """Abandoned items that can be taken over."""
    abandoned_seconds: float
    """The age of the longest abandonment of these; 0: there is none."""
    attempts: dict[str, int]
    """Attempts since the last measurement, by the reason of the release, or else how they ended."""
    quarantines: int
    """Items quarantined since then."""
    in_backoff: int
    """Items in back-off."""
    quarantined: int
    next_end: int
    """When the next claim ends, or item is held back no longer, in ms; 0: there is none."""
    agents: int
    """Agents of the last day."""
    drains: int
    """Names under which agents are drained."""
    postponed: int
    """Items that are not ready before a time."""
    overdue: int
    """Open items whose time to be done has passed."""
    usage: tuple[int, ...]
    """What was used since it began: input, output and cached tokens, micro-USD, ms; empty: nothing."""
    today: tuple[int, ...]
    """The same of this day (UTC)."""
    spent: int
    """Open items whose budget is spent."""
    resources: dict[str, ResourceLevel]
    """Those of the settings, at most ``RESOURCES``."""
    budgets: BudgetShares


class _Reply(msgspec.Struct, array_like=True):
    """``Measures`` as they are stored; times in ms."""

    now: int
    roles: list[int]
    """By role code."""
    oldest: int
    """When the oldest item that agents are offered in the queue was created; 0: there is none."""
    ended: list[str]
    """Ended claims: fields and numbers in turn (``lua/claims/holds.lua``)."""
    in_backoff: int
    quarantined: int
    next_end: int
    agents: int
    drains: int
    postponed: int
    overdue: int
    usage: str
    """The sum (``lua/usage/sums.lua``); '': nothing."""
    today: str
    spent: int
    resources: list[ResourceLevel]
    budgets: BudgetShares


MEASURE = Script(LIBRARY, "measure_items", _Reply)
"""For ``MeasureStore``."""
_NOTHING = SchemaConfig()
_ABANDONED = Script(LIBRARY, "read_abandoned", Abandoned)


async def read_abandoned(store: Store, project: str, limit: int) -> Abandoned:
    """The abandoned items of a project, at most ``limit`` listed. Raises ToolFailure as ``Store.run`` says."""
    return await store.run(_ABANDONED, project, limit)


class MeasureStore:
    """Measures the items of any project. Raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def measure(self, project: str, config: SchemaConfig = _NOTHING) -> Measures:
        """Measures a project. Each ended claim is reported once.

        Args:
            config: the settings in force, which name resources and budgets.
        """
        limits = dict(islice(config.resources.limits.items(), RESOURCES))
        reply = await self._store.run(MEASURE, project, config.terms(project), pack(list(limits)))
        roles = dict(zip(ROLE_NAMES, reply.roles, strict=True))
        oldest = max(0.0, (reply.now - reply.oldest) / 1000) if reply.oldest else 0.0
        counts: dict[str, dict[int, int]] = {end: {} for end in ENDS.values()}
        seconds = dict.fromkeys(counts, 0.0)
        contended: dict[int, int] = {}
        attempts: dict[str, int] = {}
        losers = ended = quarantines = 0
        for field, packed in zip(reply.ended[::2], reply.ended[1::2], strict=True):
            kind, rest, (count, amount) = field[0], field[1:], divmod(int(packed), _ONE)
            if kind == "a":
                attempts[rest] = amount
            elif kind == "q":
                quarantines = amount
            elif kind == "l":
                contended[int(rest)] = count
                losers += amount
            else:
                counts[ENDS[kind]][int(rest) - 1] = count
                seconds[ENDS[kind]] += amount / 1000
                ended += count
        # The store counts every ended claim by its end, but by losers only if it had any.
        if (alone := ended - sum(contended.values())) > 0:
            contended[0] = alone
        held = [Held(end, found, seconds[end]) for end, found in counts.items() if found]
        left = await read_abandoned(self._store, project, 0)
        return Measures(
            roles,
            oldest,
            held,
            Lost(contended, losers),
            left.ready,
            left.oldest_seconds,
            attempts,
            quarantines,
            reply.in_backoff,
            reply.quarantined,
            reply.next_end,
            reply.agents,
            reply.drains,
            reply.postponed,
            reply.overdue,
            _sum(reply.usage),
            _sum(reply.today),
            reply.spent,
            dict(zip(limits, reply.resources or map(ResourceLevel.unused, limits.values()), strict=True)),
            reply.budgets,
        )


def _sum(stored: str) -> tuple[int, ...]:
    return tuple(map(int, stored.split(","))) if stored else ()
