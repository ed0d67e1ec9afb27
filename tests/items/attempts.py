"""Items that are attempted several times: what begins and counts their attempts."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Client, Json

REVIEWED: Json = {"notes": [{"key": "verdict", "role": "review"}]}
SCHEMAS: Json = {
    "reviewed": REVIEWED,
    "fragile": {"notes": [], "max_attempts": 1},
    "sturdy": {"notes": [], "max_attempts": 0},
}


def client(store: Store, project: str, most: int = 3, backoff: int = 0, cap: int = 900) -> Client:
    """A client whose settings allow so many attempts."""
    given = Settings(
        request_deadline_ms=LONG_MS,
        attempts=Attempts(max=most, backoff_seconds=backoff, backoff_cap_seconds=cap),
        work_item_schemas=msgspec.convert({"work_item_schemas": SCHEMAS}, Settings).work_item_schemas,
    )
    return Client(store, project, given)


async def begun(tools: Client, agent: str = "lost", **fields: Any) -> str:
    """An item in work, held by its agent."""
    item = await tools.add(**fields)
    await tools.claim(agent, item)
    assert (await tools.advance(item, "start", agent))["applied"]
    return item


async def reviewed(tools: Client, agent: str = "worker") -> str:
    """An item in review, held by the agent that did the work."""
    item = await begun(tools, agent, type="reviewed")
    assert (await tools.advance(item, "start", agent))["newRole"] == "review"
    return item


async def attempts(tools: Client, item: str) -> Json:
    """The attempts that a read of the item shows; those of get_context have their agents."""
    full: Json = (await tools.get(item)).get("attempts", {"count": 0, "last": []})
    context = (await tools("get_context", itemId=item)).get("attempts", {"count": 0, "last": []})
    assert [{name: value for name, value in one.items() if name != "claimedBy"} for one in context["last"]] == full[
        "last"
    ]
    return context


async def counted(tools: Client, item: str) -> int:
    return int((await attempts(tools, item))["count"])


async def must_be_sound(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []
