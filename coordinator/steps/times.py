"""Times and counts that belong together; see the chain that ``check`` asserts."""

from __future__ import annotations

LEASE_MS = 5_000
"""How long a step is its worker's without a sign of life, by the store's clock."""
RENEW_SECONDS = 1.5
SWEEP_SECONDS = 0.5
RERUN_MS = 6_000
"""A step of a killed worker runs again within this."""
IDLE_SECONDS = 1.0
"""How often an idle worker looks at its queues although no bell rang."""
LOOK_MS = 10_000
"""A step that waits for a worker this long has its job looked for, and again after as long."""
CRASHES = 3
"""Lost workers after which a step is given up. When one is left, no worker runs it beside another such step."""
SWEEP_BATCH = 100
"""Steps of a kind that one run of the sweep moves."""
PROTOCOL = 1
"""What this release's workers can execute; a step that needs more is left to newer ones."""


def check(lease_ms: int, renew_seconds: float, sweep_seconds: float) -> None:
    """Raises ValueError if the times do not fit into each other."""
    if not 0 < renew_seconds * 2000 < lease_ms:
        raise ValueError(f"a lease of {lease_ms} ms must outlive two renewals, each after {renew_seconds} s")
    if lease_ms + sweep_seconds * 1000 >= RERUN_MS:
        raise ValueError(f"a lease of {lease_ms} ms and a sweep each {sweep_seconds} s must end within {RERUN_MS} ms")


check(LEASE_MS, RENEW_SECONDS, SWEEP_SECONDS)
