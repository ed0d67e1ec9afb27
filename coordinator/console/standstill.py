"""Why nothing moves in a project: the first cause of a list that holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.store.processes import Process
from coordinator.toolsets.items.store.project_state import ProjectState
from coordinator.toolsets.tool import Criticality

QUIET_MS = 60_000
"""With claims at work, a project without a change for so long does not move."""
ABSENT_MS = 60_000
"""An agent that was seen so recently will claim again."""
BUSY_MS = 300_000
"""The same of an agent that holds an item: it may work without a call for a while."""
_LEAST = Criticality.SHEDDABLE.label
"""Searches and lists: without them, work goes on."""


class Standstill(NamedTuple):
    """A cause."""

    cause: str
    """A word or two."""
    text: str
    """What that means."""
    next: str = ""
    """What to do about it, as a command to type, or as words; empty: nothing is wrong."""


def standstill(
    state: ProjectState, processes: Sequence[Process], drains: Sequence[str], queued_steps: int
) -> Standstill | None:
    """Why nothing moves; None: something does.

    Args:
        drains: the scopes that are drained.
        queued_steps: steps of flows that wait for a worker.
    """
    reports = [one.status for one in processes if one.status is not None]
    workers = [one for one in reports if one.role == "worker"]
    fronts = [one for one in reports if one.role == "frontend"]
    offered = state.ready + state.abandoned
    unseen_ms = state.now - state.agent_seen
    idle = not state.parked and unseen_ms > (BUSY_MS if state.claims else ABSENT_MS)
    if queued_steps and not workers:
        text = f"{queued_steps:,} steps of flows wait, and no worker runs."
        return Standstill("no workers", text, "fleet up --workers 1")
    if "fleet" in drains or (fronts and all(one.drained for one in fronts)):
        return Standstill("drained", "The fleet takes no new work, as an operator has asked.", "fleet drain --end")
    if queued_steps and all(one.paused for one in workers):
        text = f"All workers are drained or suspended, and {queued_steps:,} steps of flows wait."
        return Standstill("drained", text, "fleet drain --end")
    shed = sum(rate for one in fronts for name, rate in one.shed_per_second.items() if name != _LEAST)
    if shed:
        text = f"{shed:,.1f} calls a second are shed, because the fleet is overloaded."
        return Standstill("shed", text, "see System: add front-ends, or slow down callers")
    if offered and idle:
        text = f"{offered:,} items are ready, and no agent asks for one."
        if state.claims:
            minutes = unseen_ms // 60_000
            text = f"{offered:,} items are ready, and nobody was heard of for {minutes} min: agents may be dead."
        return Standstill("no agents", text, "connect an agent, or start one: fleet run")
    stuck = state.waiting + state.roles[4]
    if not offered and not state.claims and stuck:
        text = f"All {stuck:,} open items are blocked: by others, by a back-off, or as somebody has set them."
        return Standstill("all blocked", text, "open the blocked ones, and release the first")
    if not offered and state.claims and state.now - state.changed > QUIET_MS:
        return Standstill("all claimed", f"Each item that could be worked on is claimed: {state.claims:,} claims.")
    if not sum(state.roles) - state.roles[3]:
        return Standstill("empty", "There are no open items: all is done.", 'fleet items add "…"')
    return None
