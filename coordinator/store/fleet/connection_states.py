"""The last outcome of each connection (``coordinator.settings.sections.connections``): as workers report it with their
status (``processes.py``), and of the whole fleet, as operators see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

State = Literal["not tried", "ok", "failing"]
RECENT_MS = 60_000
"""A failure counts for so long even if another worker was more lucky since: calls go to any worker."""


class ConnectionStatus(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The last outcome of a connection in one worker. Times are in ms, by the clock of the worker's host."""

    name: str
    kind: str = ""
    state: State = "not tried"
    reason: str = ""
    """Why it fails: words without addresses and secrets."""
    since: int = 0
    """Since when it has this state."""
    at: int = 0
    """When it was last used."""
    unset: list[str] = []
    """The environment variables that it needs and that the worker does not have."""


class ConnectionState(NamedTuple):
    """A connection in the whole fleet."""

    name: str
    kind: str
    state: State
    reason: str
    since: int
    at: int
    worker: str
    """Whose outcome this is: ``<host>/<slot>``; empty: nobody has tried it."""
    unset: Mapping[str, tuple[str, ...]]
    """Worker -> the environment variables that it lacks."""

    @property
    def lacking(self) -> list[str]:
        """What workers lack, in words."""
        found: dict[tuple[str, ...], list[str]] = {}
        for worker, names in sorted(self.unset.items()):
            found.setdefault(names, []).append(worker)
        return [
            f"no environment variable {' and no '.join(names)} in {', '.join(workers)}"
            for names, workers in found.items()
        ]


def connection_states(
    reported: Iterable[tuple[str, ConnectionStatus]], kinds: Mapping[str, str], now: int
) -> list[ConnectionState]:
    """The connections of the fleet by name. One fails if a worker's last outcome is a failure, unless another worker
    used it since, and the failure is old.

    Args:
        reported: what workers (``<host>/<slot>``) report.
        kinds: name -> kind of connections that are listed even if nobody reports them.
        now: in ms.
    """
    found: dict[str, list[tuple[str, ConnectionStatus]]] = {name: [] for name in kinds}
    for worker, status in reported:
        found.setdefault(status.name, []).append((worker, status))
    return [_state(name, kinds.get(name, ""), found[name], now) for name in sorted(found)]


def _state(name: str, kind: str, reported: list[tuple[str, ConnectionStatus]], now: int) -> ConnectionState:
    used = max((status.at for _, status in reported if status.state == "ok"), default=0)
    tried = [
        (status.state == "failing" and (status.at >= used or status.at > now - RECENT_MS), status.at, worker, status)
        for worker, status in reported
        if status.state != "not tried"
    ]
    # A failure that does not count any more is older than the success that outdates it.
    _, _, worker, last = max(tried, key=lambda one: one[:3], default=(False, 0, "", ConnectionStatus(name)))
    unset = {worker: tuple(status.unset) for worker, status in reported if status.unset}
    kind = next((status.kind for _, status in reported), kind)
    return ConnectionState(name, kind, last.state, last.reason, last.since, last.at, worker, unset)
