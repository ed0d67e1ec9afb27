"""Why nothing moves in a project: the first cause of a list that holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.console.numbers.spent import NOTHING, Held, raising, whose
from coordinator.store.fleet.processes import Process
from coordinator.toolsets.items import ProjectState
from coordinator.toolsets.tool import Criticality

QUIET_MS = 60_000
"""With claims at work, a project without a change for so long does not move."""
ABSENT_MS = 60_000
"""An agent that was seen so recently will claim again."""
BUSY_MS = 300_000
"""The same of an agent that holds an item: it may work without a call for a while."""
SPENT = "budget spent"
_LEAST = Criticality.SHEDDABLE.label
"""Searches and lists: without them, work goes on."""


class Standstill(NamedTuple):
    cause: str
    """A word or two."""
    text: str
    """What that means."""
    next: str = ""
    """What to do about it, as a command to type, or as words; empty: nothing is wrong."""


def standstill(
    state: ProjectState, processes: Sequence[Process], drains: Sequence[str], queued_steps: int, held: Held = NOTHING
) -> Standstill | None:
    """Why nothing moves; None: something does.

    Args:
        drains: the scopes that are drained.
        queued_steps: steps of flows that wait for a worker.
        held: what keeps agents from items.
    """
    reports = [process.status for process in processes if process.status is not None]
    workers = [report for report in reports if report.role == "worker"]
    fronts = [report for report in reports if report.role == "frontend"]
    offered = state.ready + state.abandoned
    unseen_ms = state.now - state.agent_seen
    idle = not state.parked and unseen_ms > (BUSY_MS if state.claims else ABSENT_MS)
    if queued_steps and not workers:
        text = f"{queued_steps:,} steps of flows wait, and no worker runs."
        return Standstill("no workers", text, "fleet up --workers 1")
    if "fleet" in drains or (fronts and all(front.drained for front in fronts)):
        return Standstill("drained", "The fleet takes no new work, as an operator has asked.", "fleet drain --end")
    if queued_steps and all(worker.paused for worker in workers):
        text = f"All workers are drained or suspended, and {queued_steps:,} steps of flows wait."
        return Standstill("drained", text, "fleet drain --end")
    shed = sum(rate for front in fronts for name, rate in front.shed_per_second.items() if name != _LEAST)
    if shed:
        text = f"{shed:,.1f} calls a second are shed, because the fleet is overloaded."
        return Standstill("shed", text, "see System: add front-ends, or slow down callers")
    if (spent := _spent(state, held)) is not None:
        return spent
    if offered and held.offered and idle:
        text = f"{offered:,} items are ready, and no agent asks for one."
        if held.words:
            text = f"Items are ready, and no agent asks for one. Others are held back: {held.words}."
        if state.claims:
            minutes = unseen_ms // 60_000
            text = f"{offered:,} items are ready, and no agent was heard of for {minutes} min: agents may be dead."
        return Standstill("no agents", text, "connect an agent, or start one: fleet run")
    stuck = state.waiting + state.roles[4]
    if offered and not held.offered and held.words and not state.claims:
        return Standstill("held back", f"Nothing is offered: {held.words}.", "open the board, and what waits there")
    if not offered and not state.claims and stuck:
        why = held.words or "by others, by a back-off, or as they were set"
        text = f"All {stuck:,} open items are blocked: {why}."
        return Standstill("all blocked", text, "open the blocked ones, and release the first")
    if not offered and state.claims and state.now - state.changed > QUIET_MS:
        return Standstill("all claimed", f"Each item that could be worked on is claimed: {state.claims:,} claims.")
    if not sum(state.roles) - state.roles[3]:
        return Standstill("empty", "There are no open items: all is done.", 'fleet items add "…"')
    return None


def _spent(state: ProjectState, held: Held) -> Standstill | None:
    """A spent budget that keeps agents from all that there is to do."""
    if not sum(state.roles) - state.roles[3]:
        return None
    if (own := held.project) is not None:
        text = f"The budget of the project is spent: {own.text}. No agent gets an item, and claims are to end."
        return Standstill(SPENT, text, f"raise {raising(own)} in the settings, and run fleet reload")
    if state.claims:
        return None
    if not held.offered and (count := held.counts.get("budget", 0)):
        items = held.of("item")
        of = whose(items[0]) + (f", and {len(items) - 1} others" if len(items) > 1 else "") if items else "budgets"
        text = f"Nothing is offered, because of spent budgets ({of}): {count:,} items are held back."
        return Standstill(SPENT, text, "raise them under Approvals")
    agents = held.of("agent")
    if held.offered and agents and len(agents) >= state.agents:
        text = f"Each of the {len(agents):,} agents here has spent its budget."
        return Standstill(SPENT, text, f"raise {raising(agents[0])} in the settings, and run fleet reload")
    return None
