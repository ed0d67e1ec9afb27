"""Which items of the catalogue a principal may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from coordinator.settings.sections.gateway.model import Workflow
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, CatalogueItem
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal, all_hold
from coordinator.toolsets.gateway.rules.resolve import READY
from coordinator.toolsets.gateway.rules.schemas.inputs import with_defaults
from coordinator.toolsets.gateway.rules.scope import Scope


def visible(catalogue: Catalogue, principal: Principal) -> Sequence[CatalogueItem]:
    """The items that a principal may see, in the catalogue's order."""
    return [item for item in catalogue.items.values() if sees(catalogue, item.id, principal)]


def sees(catalogue: Catalogue, id: str, principal: Principal, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether a principal may see the item with this id.

    Args:
        arguments: the arguments of a call; None if it is not called yet.
    """
    if catalogue.gateway.discovery.visibility == "all":
        return True
    capability = catalogue.capabilities.get(id)
    if capability is None:
        return True
    arguments_given = {} if arguments is None else with_defaults(capability.schema, dict(arguments))
    return all_hold(capability.guards, Circumstances(principal, Scope({}, arguments_given)))


def seen_sessions(catalogue: Catalogue, sessions: Workflow, principal: Principal) -> Workflow:
    """The definition of sessions, limited to the capabilities that a principal may see."""
    ready = sessions.states[READY]
    seen = {name: transition for name, transition in ready.transitions.items() if sees(catalogue, name, principal)}
    return replace(sessions, states={READY: replace(ready, transitions=seen)})
