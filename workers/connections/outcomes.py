"""The last outcome of each connection of this worker, which its status tells operators (``ConnectionStatus``).

Noting one costs no command: the status is written every few seconds anyway.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from coordinator.settings.sections.connections import Connection, unset_variables
from coordinator.store.fleet.connection_states import ConnectionStatus, State
from workers.metrics import CONNECTION_USES

_LONGEST = 300
"""Most characters of a reason that are kept."""


class Outcomes:
    """The last outcomes.

    Args:
        environment: the values of ``${NAME}`` in connections.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._stated: Mapping[str, Connection] = {}
        self._statuses: dict[str, ConnectionStatus] = {}

    def configure(self, stated: Mapping[str, Connection]) -> None:
        """Takes over the present connections. Those that changed have not been tried."""
        self._statuses = {
            name: self._statuses[name]
            if self._stated.get(name) == value
            else ConnectionStatus(name, value.kind, unset=unset_variables(value, self._environment))
            for name, value in stated.items()
        }
        self._stated = dict(stated)
        for name in stated:
            for outcome in ("ok", "failed"):
                CONNECTION_USES.labels(name, outcome)

    def noting(self, name: str) -> Callable[[str], None]:
        """A function that notes outcomes of the connection as it is now: the reason of a failure; empty: it worked."""
        stated = self._stated.get(name)

        def note(problem: str) -> None:
            status = self._statuses.get(name)
            if status is None or self._stated.get(name) != stated:
                return  # it was removed or changed meanwhile
            status.at = round(time.time() * 1000)
            state: State = "failing" if problem else "ok"
            if status.state != state:
                status.state, status.since = state, status.at
            status.reason = problem[:_LONGEST]
            CONNECTION_USES.labels(name, "failed" if problem else "ok").inc()

        return note

    def statuses(self) -> list[ConnectionStatus]:
        return list(self._statuses.values())
