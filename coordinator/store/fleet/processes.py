"""What each process of the fleet reports of itself, for operators: a short status in Redis, renewed every few seconds.

It is written by the call in which the process says that it runs (``drains.py``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import msgspec

from coordinator import __version__
from coordinator.metrics import process, recording
from coordinator.metrics.hot import Hot, merged
from coordinator.store import keys
from coordinator.store.fleet.connection_states import ConnectionState, ConnectionStatus, connection_states
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

GONE_SECONDS = 30
"""A process that has not reported for this long counts as gone."""
STATUS_SECONDS = 15
"""How long a status is kept."""
HOT_ITEMS = 5

Role = Literal["frontend", "worker"]


class ProcessStatus(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What a process reports of itself. Rates and the lag are those since the report before."""

    role: Role
    version: str = ""
    pid: int = 0
    started_at: int = 0
    """In ms, by the clock of its host."""
    config_version: str = ""
    drained: str = ""
    """The scope of the drain that covers it; '' for none."""
    stopping: bool = False
    """Whether it was told to end, and only finishes what it has begun."""
    lag_ms: float = 0.0
    """The longest lag of its event loop."""
    connections: int = 0
    """From here on, of front-ends: clients connected."""
    requests: int = 0
    """HTTP requests being answered."""
    in_flight: int = 0
    """Calls at work in the store."""
    limit: int = 0
    """How many may be."""
    waiting: int = 0
    """Calls in the queue for admission."""
    parked: int = 0
    """Calls that wait for an event."""
    breaker: str = ""
    """closed, open or half-open."""
    shed_per_second: dict[str, float] = {}
    """By criticality, those above 0."""
    hot: list[Hot] = []
    """The most contended items, the hottest first."""
    slots: int = 0
    """From here on, of workers: steps that it can run at a time."""
    running: int = 0
    """Steps that run."""
    paused: bool = False
    """Whether it takes no steps: drained, or all workers are suspended."""
    done_per_minute: float = 0.0
    """Attempts of steps that succeeded."""
    failed_per_minute: float = 0.0
    """Attempts that failed, for good or not."""
    uses: list[ConnectionStatus] = []
    """How the connections to servers and programs go."""


class Process(NamedTuple):
    """A process that runs, or did a moment ago."""

    host: str
    slot: str
    noted_at: int
    """When it last said so: the store's time in s."""
    status: ProcessStatus | None
    """None: it has not reported for ``STATUS_SECONDS``, or is of a release that reports otherwise."""


class Processes(NamedTuple):
    """The processes of the fleet."""

    now: int
    """The store's time, in ms."""
    running: list[Process]
    """By host and slot; at most 1,000."""

    def hot(self, count: int = HOT_ITEMS, project: str = "") -> list[Hot]:
        """The most contended items of the fleet, or of a project, the hottest first, of the five of each process."""
        every = (hot for one in self.running if one.status is not None for hot in one.status.hot)
        return merged((hot for hot in every if project in ("", hot.project)), count)

    def uses(self, kinds: Mapping[str, str] = {}) -> list[ConnectionState]:
        """How the connections of the workers go, by name.

        Args:
            kinds: name -> kind of connections that are listed even if no worker reports them.
        """
        reported = (
            (f"{one.host}/{one.slot}", use) for one in self.running if one.status is not None for use in one.status.uses
        )
        return connection_states(reported, kinds, self.now)


_READ = Script(STORE, "read_processes", tuple[int, list[tuple[str, int, str]]], scope="fleet")
_status = msgspec.json.Decoder(ProcessStatus).decode


async def read_processes(store: Store, within_seconds: int = GONE_SECONDS) -> Processes:
    """The processes that have said within this time that they run. One round trip; raises ToolFailure as ``Store.run``
    says."""
    now, rows = await store.run(_READ, keys.FLEET, within_seconds)
    return Processes(now, [_process(*row) for row in sorted(rows)])


def _process(name: str, noted_at: int, text: str) -> Process:
    host, _, slot = name.partition("/")
    try:
        status = _status(text) if text else None
    except msgspec.MsgspecError:
        status = None
    return Process(host, slot, noted_at, status)


class StatusReport:
    """Makes the status of this process, for ``Drains.follow``.

    Args:
        fill: adds what only the process in its role knows.
    """

    def __init__(self, role: Role, fill: Callable[[ProcessStatus], None]) -> None:
        self._role: Role = role
        self._fill = fill
        self._started_at = round(time.time() * 1000)

    def __call__(self, drained: str) -> bytes:
        """The status as JSON. ``drained``: the scope of the drain that covers this process; '' for none."""
        status = ProcessStatus(
            self._role,
            __version__,
            os.getpid(),
            self._started_at,
            recording().config_version,
            drained,
            lag_ms=round(process.take_worst_lag() * 1000, 1),
            hot=recording().hot.top(HOT_ITEMS),
        )
        self._fill(status)
        return msgspec.json.encode(status)
