"""Waiting reads beside fresh ones: after any change, those wait no longer for which it is true what they wait for."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.feed import waits
from tests.items.client import Client, Json, actor, fresh_id
from tests.support.parked import parked

pytestmark = pytest.mark.anyio

WAIT_MS = 50_000
CONDITIONS = ("terminal", "tree_terminal", "unblocked", "note:k", "changed")


class Waiting:
    """A parked call for each item and condition; those that are true already have none."""

    def __init__(self, tools: Client) -> None:
        self._tools = tools
        self._tasks: dict[tuple[str, str], asyncio.Task[Json | ToolFailure]] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self._until: dict[tuple[str, str], float] = {}
        """When each may end by its time; up to a twentieth sooner than that."""
        self.ended = 0

    async def look(self, item: str, condition: str) -> Json | None:
        """How it is now; None: there is no such item."""
        found = await self._call(item, condition, 0)
        if isinstance(found, ToolFailure):
            assert found.code == "RESOURCE_NOT_FOUND"
            return None
        waited: Json = found["waited"]
        return waited

    async def check(self, items: list[str], what: str) -> None:
        """Compares the parked calls with how it is, and parks new ones."""
        for item in items:
            for condition in CONDITIONS:
                key, now = (item, condition), await self.look(item, condition)
                if key in self._tasks:
                    changed = now is not None and condition == "changed" and now["after"] != self._versions[key]
                    if now is None or now["met"] or changed:
                        await self._end(key, what, gone=now is None)
                    elif self._tasks[key].done():
                        assert time.monotonic() >= self._until[key], (what, key, self._tasks[key].result())
                        del self._tasks[key]
                if now is not None and not now["met"] and key not in self._tasks:
                    self._versions[key] = now["after"]
                    more = {"after": now["after"]} if condition == "changed" else {}
                    self._until[key] = time.monotonic() + WAIT_MS / 1000 * 0.95
                    self._tasks[key] = await parked(self._tools.room, self._call(item, condition, WAIT_MS, **more))

    async def _end(self, key: tuple[str, str], what: str, *, gone: bool) -> None:
        task = self._tasks.pop(key)
        done, _ = await asyncio.wait((task,), timeout=20)
        assert done, f"{what}: a wake-up was missed: {key}"
        if time.monotonic() >= self._until[key]:
            return
        found = task.result()
        assert isinstance(found, ToolFailure) if gone else not isinstance(found, ToolFailure) and found["waited"]["met"]
        self.ended += 1

    def _call(self, item: str, condition: str, ms: int, **more: Any) -> Any:
        return self._tools.attempt("get_context", itemId=item, waitFor=condition, waitMs=ms, **more)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def change(tools: Client, pick: random.Random, items: list[str]) -> str:
    """One change; those that the rules forbid change nothing."""
    item, other, agent = pick.choice(items), pick.choice(items), pick.choice("ab")
    note = {"itemId": item, "key": "k", "role": "queue", "body": pick.choice(("", "b"))}
    edge = {"fromItemId": item, "toItemId": other}
    changes: list[tuple[str, tuple[str, Json]]] = [
        ("create", ("manage_items", {"operation": "create", "items": [{"title": "t", "parentId": item}]})),
        ("delete", ("manage_items", {"operation": "delete", "ids": [item]})),
        ("update", ("manage_items", {"operation": "update", "items": [{"id": item, "summary": fresh_id()}]})),
        ("note", ("manage_notes", {"operation": "upsert", "notes": [note]})),
        ("unnote", ("manage_notes", {"operation": "delete", "itemId": item, "key": "k"})),
        ("link", ("manage_dependencies", {"operation": "create", "dependencies": [edge]})),
        ("unlink", ("manage_dependencies", {"operation": "delete", **edge})),
        ("claim", ("claim_item", {"actor": actor(agent), "requestId": fresh_id(), "claims": [{"itemId": item}]})),
        (
            "release",
            ("claim_item", {"actor": actor(agent), "requestId": fresh_id(), "releases": [{"itemId": item}]}),
        ),
        *(
            (move, ("manage_items", {"operation": "update", "items": [{"id": item, "parentId": other}]}))
            for move in ("move", "move")
        ),
        *(
            (
                trigger,
                ("advance_item", {"transitions": [{"itemId": item, "trigger": trigger, "actor": actor(agent)}]}),
            )
            for trigger in ("start", "complete", "complete", "cancel", "cancel", "reopen", "block", "resume")
        ),
    ]
    kind, (tool, arguments) = pick.choice(changes)
    made = await tools.attempt(tool, **arguments)
    if kind == "create" and isinstance(made, dict):
        items += [one["id"] for one in made["items"]]
    return f"{kind} {item} {other}"


@pytest.mark.parametrize("steps", [40, pytest.param(200, marks=pytest.mark.chaos)])
async def test_no_change_goes_unnoticed(tools: Client, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)
    monkeypatch.setattr(waits, "COALESCE_SECONDS", 0.01)
    pick, waiting = random.Random(5), Waiting(tools)
    items = [await tools.add("root") for _ in range(2)]
    for parent in list(items):
        items += await tools.add_many(3, parentId=parent)
    try:
        await waiting.check(items, "the beginning")
        for _ in range(steps):
            what = await change(tools, pick, items)
            await waiting.check(items[:14], what)
    finally:
        await waiting.close()
    assert waiting.ended > steps // 2, "hardly anything has happened"
