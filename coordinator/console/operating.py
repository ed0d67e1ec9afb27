"""Buttons of operators: drains of processes and agents, and ended claims. Others do not see them."""

from __future__ import annotations

from htpy import Node

from coordinator.console.buttons import operation, refusal
from coordinator.console.parts import plain
from coordinator.console.view import Asked
from coordinator.store.drains import FLEET_SCOPE
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.store.rows import Row


def drain_button(asked: Asked, scope: str, name: str) -> Node:
    """Drains processes.

    Args:
        name: what they are, for people.
    """
    if refusal(asked.viewer):
        return None
    question = f"Drain {plain(name)}? It takes no new work, and finishes what it has begun, until the drain is ended."
    typed = "fleet" if scope == FLEET_SCOPE else ""
    done = f"{plain(name)} takes no new work."
    return operation(f"Drain {plain(name)}", "drain", {"scope": scope}, asked.viewer, "", question, done, typed=typed)


def end_drain_button(asked: Asked, scope: str) -> Node:
    """Ends a drain of processes."""
    if refusal(asked.viewer):
        return None
    question, done = f"End the drain of {plain(scope)}? It takes new work at once.", "The drain has ended."
    return operation("End drain", "end_drain", {"scope": scope}, asked.viewer, "", question, done, kind="")


def agent_drain_button(asked: Asked, agent: str, drained: str) -> Node:
    """Drains an agent, or ends the drain that it is in.

    Args:
        drained: the name of that drain; empty: there is none.
    """
    if refusal(asked.viewer):
        return None
    name, project = plain(drained or agent), asked.project
    if drained:
        question, done = f"End the drain of {name}? Agents of this name may claim again.", f"{name} may claim again."
        return operation(
            "End drain", "end_drain_agents", {"name": drained}, asked.viewer, project, question, done, kind=""
        )
    question = f"Drain {name}? It gets no more items, nor do agents named {name}/\u2026; what it holds, it may finish."
    done = f"{name} claims no more."
    return operation("Drain", "drain_agents", {"name": agent}, asked.viewer, project, question, done)


def end_claim_button(asked: Asked, item: Row) -> Node:
    """Ends the claim on an item in place of its holder."""
    if refusal(asked.viewer):
        return None
    question = (
        f"End the claim of {plain(item.holder)} on \u201c{plain(item.title)}\u201d? The item is offered to others at "
        "once, and late reports of this claim are refused."
    )
    arguments = {"itemId": dashed(item.id), "fence": item.fence}
    return operation("End claim", "end_claim", arguments, asked.viewer, asked.project, question, "The claim has ended.")
