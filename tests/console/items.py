"""What tests of the console do to items, as an agent."""

from __future__ import annotations

import uuid
from typing import Any

from coordinator.client import SyncFleet


def create(fleet: SyncFleet, *titles: str, **fields: Any) -> list[str]:
    """The ids of new items."""
    found = list[str]()
    for start in range(0, len(titles), 500):
        part = [{"title": title, **fields} for title in titles[start : start + 500]]
        found += (one["id"] for one in fleet.call("manage_items", {"operation": "create", "items": part})["items"])
    return found


def claim(fleet: SyncFleet, item: str, seconds: int = 900, agent: str = "") -> None:
    """Claims an item, as the client's agent or another one."""
    call: dict[str, Any] = {"claims": [{"itemId": item, "ttlSeconds": seconds}]}
    if agent:
        call |= {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4())}
    result = fleet.call("claim_item", call)
    assert result["summary"]["claimsSucceeded"] == 1, result


def advance(fleet: SyncFleet, item: str, *triggers: str, **fields: Any) -> None:
    """Takes an item through some transitions."""
    for trigger in triggers:
        actor = {"id": "orchestrator", "kind": "orchestrator"}
        entry = {"itemId": item, "trigger": trigger, "actor": actor, **fields}
        result = fleet.call("advance_item", {"transitions": [entry]})
        assert result["summary"]["succeeded"] == 1, result
