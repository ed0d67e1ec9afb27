"""The items toolset as a caller sees it: JSON in, JSON out, tools by name.

``Client`` calls a tool as the transports do: arguments are JSON that is decoded strictly into the
tool's contract, the answer is what the result encodes to, and every answer and refusal must keep to
the schema that the tool publishes. Short forms for common calls keep tests as short as the rules
that they check.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store, keys
from coordinator.toolsets.actor import ActorResolver
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.items.contract.claims import HeldBack
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.tools import claim_services
from coordinator.toolsets.items.tools import toolset as items_toolset
from coordinator.toolsets.tool import Call, Delivery, Services
from tests.support.schemas import decoded, must_keep_to

Json = dict[str, Any]

LONG_MS = 120_000
"""Deadline of calls on a busy machine; tests of deadlines set their own."""
SETTINGS = Settings(request_deadline_ms=LONG_MS, attempts=Attempts(max=0, backoff_seconds=0))
"""Abandoned items are offered at once, however often; tests of attempts set their own."""


def actor(agent: str, **more: str) -> Json:
    """An actor claim."""
    return {"id": agent, "kind": "subagent", **more}


def fresh_id() -> str:
    """A new UUID, for request ids and for items that do not exist."""
    return str(uuid.uuid4())


def counts(**found: int) -> Json:
    """What ``heldBack`` of a claim says; what is not given is 0."""
    return {name: found.get(name, 0) for name in HeldBack.__struct_encode_fields__}


def told(failure: Json) -> list[tuple[int, str]]:
    """Index and error of each edge that the one entry of a refused batch of dependencies tells of."""
    first, *others = str(failure["error"]).split("; edge ")
    return [
        (failure["index"], first),
        *((int(n), error) for n, _, error in (other.partition(": ") for other in others)),
    ]


class Client:
    """Calls the tools of items on one project."""

    def __init__(
        self,
        store: Store,
        project: str,
        settings: Settings | None = None,
        resolve_actor: ActorResolver = trust_self_reported,
    ) -> None:
        self.room = Waits(FeedReader(store))
        """Of waiting reads."""
        self.services = services = Services(settings or SETTINGS, store, resolve_actor, self.room)
        self.store = store
        self.project = project
        self.idle: list[float] = []
        """Seconds that calls were parked."""
        self.delivery: Delivery | None = None
        """Of the next calls; None: their answers count as delivered."""
        self.hung_up: asyncio.Future[None] | None = None
        """Of calls that are made now."""
        self.caller: Caller | None = None
        """Who makes the calls; None: anonymous."""
        self.agent = ""
        """The agent that the client names."""
        self.claiming = claim_services(services)
        toolset = items_toolset(services, self.claiming)
        self._tools = {tool.name: tool for tool in toolset.tools}
        self.changing = {tool.name for tool in toolset.tools if not tool.read_only}
        self.configure = toolset.service.configure
        self.drain = toolset.service.stop
        self.start = toolset.service.start
        """Begins to put back what has ended by time."""

    async def answer(self, tool: str, **arguments: Any) -> bytes:
        """The encoded result of a call. Raises ToolFailure."""
        called = self._tools[tool]
        given = decoded(called, arguments)
        try:
            call = Call(
                self.project,
                idle=self.idle.append,
                delivery=self.delivery,
                hung_up=self.hung_up,
                caller=self.caller,
                agent=self.agent,
            )
            result = await called.handler(call, given)
        except ToolFailure as failure:
            must_keep_to(called.result, failure.body())
            raise
        assert isinstance(result, called.result), f"{tool} answers with an undeclared {type(result)}"
        encoded = msgspec.json.encode(result)
        # Against its own struct, which is stricter than a union.
        must_keep_to((type(result),), json.loads(encoded))
        return encoded

    async def __call__(self, tool: str, **arguments: Any) -> Json:
        """The result of a call. Raises ToolFailure."""
        answer: Json = json.loads(await self.answer(tool, **arguments))
        return answer

    async def pages(self, tool: str, name: str, **arguments: Any) -> list[Json]:
        """All entries of a paged list."""
        found: list[Json] = []
        offset: int | None = 0
        while offset is not None:
            page = await self(tool, **arguments, **({"offset": offset} if offset else {}))
            found += page[name]
            offset = page.get("nextOffset")
        return found

    async def refusal(self, tool: str, **arguments: Any) -> ToolFailure:
        """The failure of a call that must fail as a whole."""
        result = await self.attempt(tool, **arguments)
        assert isinstance(result, ToolFailure), f"{tool} was not refused but answered {result}"
        return result

    async def attempt_answer(self, tool: str, **arguments: Any) -> bytes | ToolFailure:
        """The encoded result of a call, or its failure."""
        try:
            return await self.answer(tool, **arguments)
        except ToolFailure as failure:
            return failure

    async def attempt(self, tool: str, **arguments: Any) -> Json | ToolFailure:
        """The result of a call, or its failure."""
        result = await self.attempt_answer(tool, **arguments)
        return result if isinstance(result, ToolFailure) else json.loads(result)

    # --- items

    async def create(self, *items: Json, **shared: Any) -> Json:
        return await self("manage_items", operation="create", items=list(items), **shared)

    async def add(self, title: str = "item", **fields: Any) -> str:
        """Creates one item and returns its id."""
        result = await self.create({"title": title, **fields})
        assert result["created"] == 1, result
        return str(result["items"][0]["id"])

    async def add_many(self, count: int, **fields: Any) -> list[str]:
        """Creates items called '0', '1' ... and returns their ids in order."""
        result = await self.create(*({"title": str(n), **fields} for n in range(count)))
        assert result["created"] == count, result
        return [item["id"] for item in result["items"]]

    async def chain(self, depth: int) -> list[str]:
        """A chain of items from a root down to ``depth``."""
        ids = [await self.add("depth 0")]
        for level in range(1, depth + 1):
            ids.append(await self.add(f"depth {level}", parentId=ids[-1]))
        return ids

    async def update(self, item: str, **fields: Any) -> Json:
        """Updates one item; the whole result."""
        return await self("manage_items", operation="update", items=[{"id": item, **fields}])

    async def delete(self, *ids: str, **options: Any) -> Json:
        return await self("manage_items", operation="delete", ids=list(ids), **options)

    async def get(self, item: str, **options: Any) -> Json:
        return await self("query_items", operation="get", id=item, **options)

    async def exists(self, item: str) -> bool:
        try:
            await self.get(item)
        except ToolFailure as failure:
            if failure.code != "RESOURCE_NOT_FOUND":
                raise
            return False
        return True

    async def role(self, item: str) -> str:
        return str((await self.get(item))["role"])

    async def forget_told(self, agent: str) -> None:
        """A second passes since the agent was told what is held back: the next answer counts anew."""
        await self.store.command("DEL", keys.told.key(self.project, agent))

    async def expire(self) -> None:
        """Does what front-ends do when something has ended by time."""
        await self.claiming.claims.expire(self.project)

    async def next(self, **options: Any) -> list[str]:
        """Ids of the recommendations, best first."""
        return [entry["itemId"] for entry in (await self("get_next_item", **options))["recommendations"]]

    # --- dependencies

    async def link(self, source: str, target: str, **fields: Any) -> str:
        """Creates one edge, BLOCKS by default; returns the dependency's id."""
        result = await self.try_link(source, target, **fields)
        assert result["created"] == 1, result
        return str(result["dependencies"][0]["id"])

    async def try_link(self, source: str, target: str, **fields: Any) -> Json:
        edge = {"fromItemId": source, "toItemId": target, **fields}
        return await self("manage_dependencies", operation="create", dependencies=[edge])

    async def link_all(self, edges: Iterable[tuple[str, str]]) -> None:
        """Creates BLOCKS edges, in as many calls as needed."""
        specs = [{"fromItemId": source, "toItemId": target} for source, target in edges]
        for start in range(0, len(specs), MAX_EDGES):
            part = specs[start : start + MAX_EDGES]
            result = await self("manage_dependencies", operation="create", dependencies=part)
            assert result["created"] == len(part), result

    async def unlink(self, **selector: Any) -> Json:
        return await self("manage_dependencies", operation="delete", **selector)

    # --- work

    async def advance(self, item: str, trigger: str, agent: str = "", **fields: Any) -> Json:
        """Applies one trigger; the element's result."""
        transition = {"itemId": item, "trigger": trigger, **fields}
        if agent:
            transition["actor"] = actor(agent)
        result: Json = (await self("advance_item", transitions=[transition]))["results"][0]
        return result

    async def move(self, item: str, *triggers: str) -> Json:
        """Applies triggers that must all succeed; the last result."""
        result: Json = {}
        for trigger in triggers:
            result = await self.advance(item, trigger)
            assert result["applied"], result
        return result

    async def claims(
        self, agent: str, claims: Sequence[Json] = (), releases: Sequence[Json] = (), request_id: str = "", **more: Any
    ) -> Json:
        named = {"actor": actor(agent), "requestId": request_id or fresh_id()}
        return await self("claim_item", **named, claims=claims, releases=releases, **more)

    async def claim(self, agent: str, item: str, **fields: Any) -> Json:
        """Claims one item; the entry's result."""
        result: Json = (await self.claims(agent, [{"itemId": item, **fields}]))["claimResults"][0]
        return result

    async def release(self, agent: str, item: str, **fields: Any) -> Json:
        """Releases one item; the entry's result."""
        result: Json = (await self.claims(agent, releases=[{"itemId": item, **fields}]))["releaseResults"][0]
        return result
