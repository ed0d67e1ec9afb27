"""Says how the connections to other servers and programs go, by what workers report. Nothing is connected to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from coordinator.doctor.findings import Finding, page_of, some
from coordinator.settings.sections.connections import Connection, unset_variables
from coordinator.store.fleet.connection_states import ConnectionState
from coordinator.store.fleet.processes import Processes
from coordinator.wording import moment, printable

_WHAT, _ALERT = "connections", "ConnectionFails"


def check(processes: Processes, stated: Mapping[str, Connection]) -> Iterator[Finding]:
    """What is found about the connections that workers report, and about those in the settings."""
    states = processes.uses({name: connection.kind for name, connection in stated.items()})
    for state in states:
        for lacking in state.lacking:
            advice = "set it where the workers are started, and restart them"
            yield Finding("fails", _WHAT, f"{state.name}: {lacking}", advice)
        if state.worker and state.worker not in state.unset:
            yield _finding(state)
    if untried := [state.name for state in states if not state.worker and not state.unset]:
        yield Finding("note", _WHAT, f"not tried: {some(untried)}")
    if not any(process.status is not None and process.status.role == "worker" for process in processes.running):
        yield from _lacking_here(stated)
    if not states:
        yield Finding("ok", _WHAT, "there are none")


def _finding(state: ConnectionState) -> Finding:
    used = f"last used {moment(state.at)} by {state.worker}"
    if state.state == "ok":
        return Finding("ok", _WHAT, f"{state.name}: works since {moment(state.since)}, {used}")
    said = f"{state.name}: {printable(state.reason)}; since {moment(state.since)}, {used}"
    return Finding("fails", _WHAT, said, "", _ALERT, page_of(_ALERT))


def _lacking_here(stated: Mapping[str, Connection]) -> Iterator[Finding]:
    """Without a worker, nobody knows more than what this process has."""
    for name, connection in stated.items():
        if missing := unset_variables(connection, os.environ):
            said = f"{name}: no worker runs, and here is no environment variable {' and no '.join(missing)}"
            yield Finding("note", _WHAT, said)
