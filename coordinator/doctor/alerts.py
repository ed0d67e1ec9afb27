"""Says which conditions of alerts (``coordinator.metrics.conditions``) hold now, by the gauges of this host."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from coordinator.doctor.findings import Finding, page_of, some
from coordinator.metrics import Exposition
from coordinator.metrics.conditions import CONDITIONS, Severity, holding
from coordinator.metrics.samples import Samples
from coordinator.metrics.slots import owned
from coordinator.store.fleet.processes import Processes
from coordinator.wording import printable

_WHAT = "alerts"


class Gauges(NamedTuple):
    """What processes of a fleet on this host measure."""

    samples: Samples
    processes: frozenset[str]
    """Their names in the fleet."""


def read_gauges(directory: Path) -> Gauges:
    """The gauges that processes keep in a directory; empty if there are none, or they cannot be read."""
    try:
        slots = owned(directory)
        samples = Exposition(directory).samples() if slots else {}
    except OSError:  # they are of another user; what is not looked at is named (``unseen``)
        slots, samples = [], {}
    return Gauges(samples, frozenset(f"{socket.gethostname()}/{slot}" for slot in slots))


def check(gauges: Gauges, others: Collection[Finding]) -> Iterator[Finding]:
    """The conditions that hold: a page fails, a ticket warns, and what is a trouble only if it lasts is a note.

    Args:
        others: the findings of the other checks, which are not repeated.
    """
    alerts, looked_at, quiet = {finding.alert for finding in others}, {finding.what for finding in others}, True
    for held in holding(gauges.samples):
        condition = held.condition
        if condition.alert in alerts or condition.told_by in looked_at:
            continue
        quiet = False
        verdict = "note" if condition.lasting else _VERDICTS[condition.severity]
        said = printable(f"{held.summary} {held.description}")
        yield Finding(verdict, _WHAT, said, "", condition.alert, page_of(condition.alert))
    if quiet and gauges.samples:
        yield Finding("ok", _WHAT, f"none of {len(CONDITIONS)} conditions holds")


def unseen(running: Processes, gauges: Gauges) -> Iterator[Finding]:
    """Names the processes whose gauges are on other hosts, or in other directories."""
    names = [f"{process.host}/{process.slot}" for process in running.running if process.status is not None]
    if missing := [name for name in names if name not in gauges.processes]:
        said = f"the gauges of other processes were not looked at: {printable(some(missing))}"
        yield Finding("note", _WHAT, said, "run fleet doctor on their hosts, too, with their data directories")


_VERDICTS: dict[Severity, Literal["warns", "fails"]] = {"page": "fails", "ticket": "warns"}
