"""Buttons of operators: drains of processes and agents, and ended claims. Others do not see them."""

from __future__ import annotations

from htpy import Node

from coordinator.console.acts.buttons import operation, refusal
from coordinator.console.acts.confirms import confirm
from coordinator.console.parts import plain
from coordinator.console.view import Asked
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.store.boards.rows import Row


def drain_button(asked: Asked, scope: str, name: str) -> Node:
    """Drains processes.

    Args:
        name: what they are, for people.
    """
    if refusal(asked.viewer):
        return None
    typed = "fleet" if scope == FLEET_SCOPE else ""
    done = f"{plain(name)} takes no new work."
    question = confirm("drain", typed, name=name)
    return operation(f"Drain {plain(name)}", "drain", {"scope": scope}, asked.viewer, "", question, done)


def end_drain_button(asked: Asked, scope: str) -> Node:
    """Ends a drain of processes."""
    if refusal(asked.viewer):
        return None
    question, done = confirm("end drain", name=scope), "The drain has ended."
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
        question, done = confirm("end drain of agent", name=drained), f"{name} may claim again."
        return operation(
            "End drain", "end_drain_agents", {"name": drained}, asked.viewer, project, question, done, kind=""
        )
    question = confirm("drain agent", name=agent)
    done = f"{name} claims no more."
    return operation("Drain", "drain_agents", {"name": agent}, asked.viewer, project, question, done)


def end_claim_button(asked: Asked, item: Row) -> Node:
    """Ends the claim on an item in place of its holder."""
    if refusal(asked.viewer):
        return None
    question = confirm("end claim", holder=item.holder, title=item.title)
    arguments = {"itemId": dashed(item.id), "fence": item.fence}
    return operation("End claim", "end_claim", arguments, asked.viewer, asked.project, question, "The claim has ended.")
