"""Demands of items for resources, and what is held and waited for."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.toolsets.items.audit.resources import held_text
from tests.items.client import SETTINGS, Client, Json


async def held(tools: Client) -> dict[str, str]:
    """The four numbers that are held of each key."""
    fields = await tools.store.command("HGETALL", keys.resources.key(tools.project))
    return {name.decode(): held_text(numbers) for name, numbers in fields.items() if not name.startswith(b"~")}


def with_limits(tools: Client, **sections: Any) -> Client:
    """A client of the same project with further settings."""
    fields = msgspec.structs.asdict(msgspec.convert(sections, Settings))
    return Client(tools.store, tools.project, msgspec.structs.replace(SETTINGS, **{n: fields[n] for n in sections}))


def demand(key: str, mode: str = "exclusive", units: int = 1) -> Json:
    return {"key": key, "mode": mode, "units": units}


PATIENCE_MS = 30_000


async def wait_as_if(tools: Client, ms: int = PATIENCE_MS) -> None:
    """Makes it so long ago that items were passed over, and reservations were renewed."""
    passed, reserved = keys.passed_over.key(tools.project), keys.reserved.key(tools.project)
    for member in await tools.store.command("ZRANGE", passed, 0, -1):
        await tools.store.command("ZINCRBY", passed, -ms, member)
    for item, text in (await tools.store.command("HGETALL", reserved)).items():
        at, _, demands = text.decode().partition(" ")
        await tools.store.command("HSET", reserved, item, f"{int(at) - ms} {demands}")


async def reserved(tools: Client) -> set[str]:
    found = await tools.store.command("HKEYS", keys.reserved.key(tools.project))
    return {one.decode() for one in found}
