"""Times and counts of steps. Some depend on each other."""

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
"""How long a part of a worker waits before it retries a Redis that did not answer."""
IDLE_POLL_SECONDS = 1.0
"""How often an idle worker looks at its queues even if no bell rings."""
JOB_CHECK_MS = 10_000
"""Each time that a step has waited for a worker this long, the sweep checks that its job still exists."""
MAX_CRASHES = 3
"""A step that has lost this many workers is given up. No worker runs two suspects (steps one loss short of that) at
once."""
SWEEP_BATCH = 100
"""How many steps of each kind one run of the sweep moves, at most."""
PROTOCOL = 1
"""The version of steps that these workers can execute. Steps that need a later one are left to newer workers."""

if not 0 < 2000 * RENEW_SECONDS < LEASE_MS:
    raise ValueError("a lease must outlive two renewals")
if LEASE_MS + 1000 * SWEEP_SECONDS >= RERUN_MS:
    raise ValueError("a lease and the sweep after it must end within RERUN_MS")
