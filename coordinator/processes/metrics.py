"""The metrics of supervisors and of reloads."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.metrics import Counter, Gauge, Label
from coordinator.metrics.process import ROLE

PROCESSES = Gauge("coordinator_processes", "processes", "Processes that the supervisor keeps running.", (ROLE,))
CAUSE = Label("cause", ("exit", "hung", "signal"))
RESTARTS = Counter(
    "coordinator_process_restarts_total",
    "restarts",
    "Processes that the supervisor restarted, by cause: ended by themselves, ended by a signal, or killed as hung.",
    (ROLE, CAUSE),
)
CONFIG_RELOADS = Counter(
    "coordinator_config_reloads_total",
    "reloads",
    "Reloads of the settings in a front-end. ok: the new ones are in force, refused: they were invalid and the old "
    "ones stay.",
    (Label("outcome", ("ok", "refused")),),
    starts_in="frontend",
)


def start_restarts(roles: Iterable[str]) -> None:
    for role in roles:
        for cause in CAUSE.values:
            RESTARTS.labels(role, cause)
