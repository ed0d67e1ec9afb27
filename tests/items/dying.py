"""Processes that die after a script, before its debts are settled or its answer has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store import Script, Store, keys
from coordinator.store.record_layout import CLASS_SIZE
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.rules.ids import dashed
from tests.items.client import Client

MANY = 120
"""Items that wait for a hub: more than one script handles."""


class Dies(Store):
    """The store of such a process: its scripts run, but debts are not settled."""

    async def finish(self, rest: Script[bool], project: str) -> None:
        pass


class Pauses(Store):
    """A store that does something between a script and the settling of its debts."""

    def __init__(self, url: str, before: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(url, timeout_ms=20_000)
        self._before = before

    async def finish(self, rest: Script[bool], project: str) -> None:
        await self._before()
        await super().finish(rest, project)


class LosesAnswers(Store):
    """A store whose connection breaks after the n-th script of a call has run in its project."""

    def __init__(self, url: str, lose: int) -> None:
        super().__init__(url, timeout_ms=5000)
        self.lose = lose

    async def run(self, script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        reply = await super().run(script, project, *args, **more)
        if project == keys.FLEET:  # the record of the project's items, which is optional for the call
            return reply
        self.lose -= 1
        if self.lose == 0:
            raise ToolFailure("store_unavailable", "the answer was lost")
        return reply


LosingClient = Callable[[int], Awaitable[Client]]


async def owed(tools: Client) -> int:
    """How many debts are left."""
    return int(await tools.store.command("LLEN", keys.owed.key(tools.project)))


async def link_pairs(tools: Client, pairs: list[tuple[str, str]], **shared: str) -> None:
    """Creates edges in as many calls as needed."""
    edges = [{"fromItemId": source, "toItemId": target, **shared} for source, target in pairs]
    for start in range(0, len(edges), MAX_EDGES):
        part = edges[start : start + MAX_EDGES]
        answer = await tools("manage_dependencies", operation="create", dependencies=part)
        assert answer["created"] == len(part), answer


async def hub(tools: Client, waiting: list[str], **fields: str) -> str:
    """An item that all of these wait for. ``fields`` are of the edges."""
    item = await tools.add("hub", tags="hub")
    await link_pairs(tools, [(item, other) for other in waiting], **fields)
    return item


async def ready(tools: Client, tag: str = "dep") -> set[str]:
    """The ready items of a tag according to the index; this read settles nothing."""
    key = keys.ranked.key(tools.project, f"g{tag}")
    found = await tools.store.command("ZRANGEBYSCORE", key, 0, CLASS_SIZE - 1)
    return {dashed(item.decode()) for item in found}
