"""The metrics that several toolsets record."""

from __future__ import annotations

from coordinator.metrics import Counter, Label, recording

CLAIM_CONFLICTS = Counter(
    "coordinator_claim_conflicts_total",
    "conflicts",
    "Conflicts over items. busy: a claim of an item that another agent holds, not_holder: a change of such an item or "
    "a report on it, stale_fence: a claim, renewal, change, report, release or start of a session that showed the "
    "fence of an older claim, whatever it was answered; such a one is neither of the others.",
    (Label("kind", ("busy", "not_holder", "stale_fence")),),
    starts_in="frontend",
)
RESTARTS_OF_OPERATIONS = Counter(
    "coordinator_operations_restarted_total",
    "restarts",
    "Operations of several scripts that started over because what they had read changed in between, by tool. Most "
    "tools are one script, which is atomic.",
    (Label("operation", ("claim_item", "get_next_item", "workflow.submit", "workflow.get")),),
    starts_in="frontend",
)


def count_conflict(kind: str, project: str, item: str) -> None:
    """Two agents conflicted over an item: ``busy``, ``not_holder`` or ``stale_fence``."""
    CLAIM_CONFLICTS.labels(kind).inc()
    if kind == "busy":
        recording().hot.lost(project, item)
