"""The pages of the console, a module each."""

from __future__ import annotations

from coordinator.console.view import View
from coordinator.console.views import (
    agents,
    approvals,
    board,
    claims,
    find,
    flow,
    flows,
    gateway,
    instance,
    item,
    needs,
    overview,
    projects,
    session,
    sessions,
    system,
    tree,
    usage,
)

NAVIGATION: tuple[tuple[View, str], ...] = (
    (overview.VIEW, "o"),
    (board.VIEW, "b"),
    (approvals.VIEW, "i"),
    (agents.VIEW, "a"),
    (usage.VIEW, "u"),
    (flows.VIEW, "f"),
    (gateway.VIEW, "w"),
    (sessions.VIEW, "s"),
    (system.VIEW, "y"),
    (projects.VIEW, "p"),
)
"""The pages that the navigation lists, each with the key that leads there after ``g``."""
_OTHERS = (claims.VIEW, find.view(NAVIGATION), flow.VIEW, instance.VIEW, item.VIEW, needs.VIEW, session.VIEW, tree.VIEW)
VIEWS: dict[str, View] = {view.name: view for view in (*(view for view, _ in NAVIGATION), *_OTHERS)}
"""By name."""
