"""Handing steps over to workers: the names of queues, and the argument ``engine`` of all scripts that do so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from coordinator.steps import times

RQ_PREFIX = "fc:{RQ}"
"""The prefix of RQ's keys. No project can have this tag."""
QUEUE = "fleet-steps"
"""The RQ queue of the default pool and priority; the others' names begin with it."""
DEFAULT_POOL = "default"
Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)

if TYPE_CHECKING:
    from coordinator.settings import Settings
    from coordinator.store import Store

_pack = msgspec.msgpack.Encoder().encode


def queue_name(pool: str, priority: str) -> str:
    """The RQ queue of a pool and priority: ``fleet-steps-gpu.high``. Must match ``list_of`` in handoff.lua."""
    suffix = f".{priority}" if priority in ("high", "low") else ""
    return QUEUE + ("" if pool in ("", DEFAULT_POOL) else f"-{pool}") + suffix


def queue_names(pools: Sequence[str]) -> list[str]:
    """The queues of a worker that serves these pools, in the order in which it polls them."""
    return [queue_name(pool, priority) for priority in PRIORITIES for pool in pools]


def own_queue(worker: str) -> str:
    """The queue of a single worker: that of steps which no other can execute now. Must match ``own`` in pointers.lua.

    Args:
        worker: lower-case letters and digits.
    """
    return f"{QUEUE}.at.{worker}"


class Handoff:
    """Packs the argument ``engine`` of the scripts.

    Args:
        direct: whether RQ's queue is in the same Redis as all projects, so that scripts write to it themselves. In a
            cluster it is not: scripts can only touch keys of one slot.
        events_max: entries kept in a project's event stream.
        limit: how many steps of a project may be queued or running at once; 0: any number.
        limits: the limits of single projects, in place of ``limit``.
    """

    def __init__(self, *, direct: bool, events_max: int, limit: int = 0, limits: dict[str, int] | None = None) -> None:
        self._facts = {"rq": f"{RQ_PREFIX}:" if direct else "", "cap": events_max, "protocol": times.PROTOCOL}
        self._limit, self._limits = limit, limits or {}
        self._packed: dict[str, bytes] = {}
        self._second = 0
        self.direct = direct

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Handoff:
        """Made from the settings, for this store."""
        steps = settings.steps
        return cls(
            direct=not steps.queue_url and not store.sharded,
            events_max=settings.events_max,
            limit=steps.project_limit,
            limits=steps.project_limits,
        )

    def identify_worker(self, name: str, queues: Sequence[str]) -> None:
        """Names the worker that calls the scripts from now on.

        Args:
            name: the worker's name in RQ, which its leases carry.
            queues: the queues that it serves.
        """
        self._facts |= {
            "worker": name,
            "lists": list(queues),
            "lease": times.LEASE_MS,
            "suspect": times.MAX_CRASHES - 1,
        }
        self._packed.clear()

    def queue_side(self) -> bytes:
        """For scripts that run on the queue's own Redis."""
        return _pack({**self._facts, "rq": f"{RQ_PREFIX}:", "limit": 0, "iso": _iso(int(time.time()))})

    def packed(self, project: str) -> bytes:
        """The argument for a script of this project."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._packed.clear()
        packed = self._packed.get(project)
        if packed is None:
            limit = self._limits.get(project, self._limit)
            packed = self._packed[project] = _pack({**self._facts, "limit": limit, "iso": _iso(second)})
        return packed


def _iso(second: int) -> str:
    # Only shown to people, by RQ's tools.
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(second))
