"""The degraded-mode policy as a table: which identity counts, by the result of verifying the proof.

=============  ====================  ====================  ========
status         accept-cached         accept-self-reported  reject
=============  ====================  ====================  ========
verified       the proof             the actor             the proof
unavailable    the actor, warned     the actor, warned     nobody
rejected       the actor, warned     the actor, warned     nobody
absent         the actor             the actor             nobody
unchecked      the actor             the actor             nobody
=============  ====================  ====================  ========

A proof that verifies with keys from the cache is ``verified``; its metadata say so.
"""

from __future__ import annotations

from typing import Literal

from coordinator.identity.verifier import Status
from coordinator.settings.sections.identity import Policy

Trust = Literal["proof", "actor", "nobody"]
"""Which identity counts: the one in the proof, the one that the actor claims, or none."""


def trust(policy: Policy, status: Status) -> Trust:
    """Which identity counts."""
    if policy == "accept-self-reported":
        return "actor"
    if status == "verified":
        return "proof"
    return "nobody" if policy == "reject" else "actor"


def worth_a_warning(policy: Policy, status: Status) -> bool:
    """Whether to warn the operator that an actor was trusted although its proof did not verify."""
    return policy != "reject" and status in ("unavailable", "rejected")
