"""Buttons of operators: drains of processes and agents, and ended claims. Others do not see them."""

from __future__ import annotations

from htpy import Node

from coordinator.console.acts.buttons import Change, button, refusal
from coordinator.console.acts.confirms import Confirm, confirm
from coordinator.console.parts import plain
from coordinator.console.view import Visit
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.toolsets.items import ItemRow, dashed


def drain_button(visit: Visit, scope: str, name: str) -> Node:
    """Drains processes; ``name`` says to people what they are."""
    change = Change("operate/drain", {"scope": scope}, f"{plain(name)} takes no new work.")
    question = confirm("drain", "fleet" if scope == FLEET_SCOPE else "", name=name)
    return _button(visit, f"Drain {plain(name)}", change, question, of_fleet=True)


def end_drain_button(visit: Visit, scope: str) -> Node:
    change = Change("operate/end_drain", {"scope": scope}, "The drain has ended.")
    return _button(visit, "End drain", change, confirm("end drain", name=scope), kind="", of_fleet=True)


def agent_drain_button(visit: Visit, agent: str, drained: str) -> Node:
    """Drains an agent, or ends the drain of the name ``drained`` that it is in."""
    if drained:
        change = Change("operate/end_drain_agents", {"name": drained}, f"{plain(drained)} may claim again.")
        return _button(visit, "End drain", change, confirm("end drain of agent", name=drained), kind="")
    change = Change("operate/drain_agents", {"name": agent}, f"{plain(agent)} claims no more.")
    return _button(visit, "Drain", change, confirm("drain agent", name=agent))


def end_claim_button(visit: Visit, item: ItemRow) -> Node:
    change = Change("operate/end_claim", {"itemId": dashed(item.id), "fence": item.fence}, "The claim has ended.")
    return _button(visit, "End claim", change, confirm("end claim", holder=item.holder, title=item.title))


def _button(
    visit: Visit, text: str, change: Change, question: Confirm, *, kind: str = "danger", of_fleet: bool = False
) -> Node:
    project = "" if of_fleet else visit.project
    return None if refusal(visit.viewer) else button(text, change, project, confirm=question, kind=kind)
