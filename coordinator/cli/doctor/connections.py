"""Says how the connections to other servers and programs go, by what workers report. Nothing is connected to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from coordinator.cli.doctor.findings import Finding
from coordinator.cli.terminal import moment, printable
from coordinator.settings.connections import Connection, unset_variables
from coordinator.store.connection_states import ConnectionState
from coordinator.store.processes import Processes

_WHAT = "connections"


def check(found: Processes, stated: Mapping[str, Connection]) -> Iterator[Finding]:
    """What is found about the connections that workers report, and about those in the settings."""
    kinds = {name: one.kind for name, one in stated.items()}
    works = any(one.status is not None and one.status.role == "worker" for one in found.running)
    for state in found.uses(kinds):
        for worker, names in sorted(state.unset.items()):
            said = f"{state.name}: the worker {worker} has no environment variable {' and no '.join(names)}"
            yield Finding("fails", _WHAT, said, "set it where the workers are started, and restart them")
        if not works and (missing := unset_variables(stated[state.name], os.environ)):
            said = f"{state.name}: no worker runs, and here is no environment variable {' and no '.join(missing)}"
            yield Finding("note", _WHAT, said)
        if not state.unset or (state.worker and state.worker not in state.unset):
            yield _finding(state)
    if not kinds and not found.uses():
        yield Finding("ok", _WHAT, "there are none")


def _finding(state: ConnectionState) -> Finding:
    if state.state == "not tried":
        return Finding("note", _WHAT, f"{state.name}: not tried")
    used = f"last used {moment(state.at)} by {state.worker}"
    if state.state == "ok":
        return Finding("ok", _WHAT, f"{state.name}: works since {moment(state.since)}, {used}")
    return Finding("fails", _WHAT, f"{state.name}: {printable(state.reason)}; since {moment(state.since)}, {used}")
