"""A project of every view: agents work in it, and people are asked."""

from __future__ import annotations

from typing import Any

from coordinator.client import SyncFleet
from coordinator.console.view import View, path_of
from deploy.pictures import fill
from tests.console.asking import ask_approval, ask_checkpoint, ask_question, session_of


def fill_project(url: str, project: str, **options: int) -> dict[str, Any]:
    """Fills a project; returns the ids of what its views show, by their names.

    Args:
        options: of ``fill``.
    """
    with SyncFleet(url, project=project, agent="orchestrator") as fleet:
        ask_question(fleet)
        instance, session = ask_approval(fleet)["workflowId"], session_of(ask_checkpoint(fleet))
        return {**fill(fleet, **options), "instance": instance, "session": session}


def address_of(view: View, project: str, ids: dict[str, Any]) -> str:
    """The path of a view of it."""
    return path_of(view.name, project if view.of_project else "", str(ids[view.name]) if view.takes_id else "")
