"""Times and counts of steps. Some depend on each other; ``check`` makes sure that they fit."""

from __future__ import annotations

LEASE_MS = 5_000
"""How long a worker keeps its lease of a step after it last renewed it, by the store's clock."""
RENEW_SECONDS = 1.5
"""How often a worker renews its leases."""
SWEEP_SECONDS = 0.5
"""How often the projects are swept."""
RERUN_MS = 6_000
"""A step of a killed worker runs again within this time."""
STORE_RETRY_SECONDS = 0.5
"""How long a part of a worker waits before it asks a Redis again that did not answer."""
IDLE_POLL_SECONDS = 1.0
"""How often an idle worker looks at its queues even if no bell rings."""
JOB_CHECK_MS = 10_000
"""Each time that a step has waited for a worker this long, the sweep checks that its job still exists."""
MAX_CRASHES = 3
"""A step that has lost this many workers is given up. No worker runs two steps at once that are one loss from that."""
SWEEP_BATCH = 100
"""How many steps of each kind one run of the sweep moves, at most."""
PROTOCOL = 1
"""The version of steps that these workers can execute. Steps that need a later one are left to newer workers."""


def check(lease_ms: int, renew_seconds: float, sweep_seconds: float) -> None:
    """Raises ValueError if the times do not fit into each other."""
    if not 0 < renew_seconds * 2000 < lease_ms:
        raise ValueError(f"a lease of {lease_ms} ms must outlive two renewals, each after {renew_seconds} s")
    if lease_ms + sweep_seconds * 1000 >= RERUN_MS:
        raise ValueError(f"a lease of {lease_ms} ms and a sweep each {sweep_seconds} s must end within {RERUN_MS} ms")


check(LEASE_MS, RENEW_SECONDS, SWEEP_SECONDS)
