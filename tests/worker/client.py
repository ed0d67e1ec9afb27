"""The worker toolset beside that of items, on one project: what agents do, and what others see of it."""

from __future__ import annotations

import asyncio
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.actor import ActorResolver
from coordinator.toolsets.items.store.agents.take import waiting_key
from coordinator.toolsets.worker.tools import toolset as worker_toolset
from tests.items.client import Client, Json, actor
from tests.support.wait import wait_until

LONG_MS = 60_000


class Agent:
    """One agent: calls of the five tools under its name."""

    def __init__(self, tools: Tools, name: str) -> None:
        self.tools = tools
        self.name = name

    async def __call__(self, tool: str, **arguments: Any) -> Json:
        """The result of a call. Raises ToolFailure."""
        self.tools.agent = self.name
        return await self.tools(tool, **arguments)

    async def next(self, **arguments: Any) -> Json:
        """What ``work_next`` answers; does not wait unless asked."""
        return await self("work_next", **{"waitMs": 0, **arguments})

    async def take(self, **arguments: Any) -> str:
        """The item that ``work_next`` must give."""
        got = await self.next(**arguments)
        assert got["outcome"] == "item", got
        return str(got["item"]["id"])

    async def note(self, key: str, body: str, **more: Any) -> Json:
        return await self("work_note", key=key, body=body, **more)

    async def done(self, **arguments: Any) -> Json:
        return await self("work_done", **arguments)

    async def failed(self, reason: str = "broken", **more: Any) -> Json:
        return await self("work_failed", reason=reason, **more)

    async def ask(self, question: str, **more: Any) -> Json:
        return await self("work_ask", question=question, **more)

    async def refused(self, tool: str, **arguments: Any) -> ToolFailure:
        """The failure of a call that must fail."""
        self.tools.agent = self.name
        return await self.tools.refusal(tool, **arguments)


class Tools(Client):
    """Calls the tools of items and worker."""

    def __init__(
        self,
        store: Store,
        project: str,
        settings: Settings | None = None,
        resolve_actor: ActorResolver = trust_self_reported,
    ) -> None:
        super().__init__(store, project, settings, resolve_actor)
        self.toolset = worker_toolset(self.services, self.claiming)
        self._tools |= {tool.name: tool for tool in self.toolset.tools}

    def worker(self, name: str) -> Agent:
        """An agent of this name."""
        return Agent(self, name)

    async def answer_question(self, item: str, text: str, number: int = 1) -> None:
        """Answers a question as a person does: by a note, and ``resume``."""
        note = {"itemId": item, "key": f"answer-{number}", "role": "work", "body": text}
        await self("manage_notes", operation="upsert", notes=[note])
        assert (await self.advance(item, "resume"))["applied"]

    async def holder(self, item: str) -> str:
        """Who holds an item now; '': nobody."""
        context = await self("get_context", itemId=item)
        claim = context.get("claimDetail", {})
        return "" if claim.get("isExpired", True) else str(claim["claimedBy"])

    async def notes(self, item: str) -> dict[str, str]:
        """The notes of an item by key."""
        listed = await self("query_notes", operation="list", itemId=item)
        return {note["key"]: note["body"] for note in listed["notes"]}


async def parked(agent: Agent, tool: str = "work_next", **arguments: Any) -> asyncio.Task[Json]:
    """Begins a call that waits, and returns when the store knows of it."""
    tools = agent.tools
    if tool == "work_next":
        arguments = {"waitMs": LONG_MS, **arguments}
    call = asyncio.create_task(agent(tool, **arguments))
    process = tools.claiming.parking.process.encode()

    async def waits() -> bool:
        assert not call.done(), call
        name = keys.waiter.key(tools.project, waiting_key(agent.name).key)
        return process in (await tools.store.command("HGET", name, "p") or b"")

    await wait_until(waits, what=f"{agent.name} to wait")
    return call


__all__ = ["LONG_MS", "Agent", "Tools", "actor", "parked"]
