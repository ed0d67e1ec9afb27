"""The gateway in the test's event loop: its tools as a caller sees them, and a worker.

The worker has the product's engine, run kinds and executors; only its process is the test's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from coordinator.feed import FeedReader, position
from coordinator.feed.cursor import START, Cursor
from coordinator.feed.waits import Waits
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.service import end_tasks
from coordinator.settings import Settings, convert
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.settings.sections.steps import StepSettings
from coordinator.steps.handoff import Handoff, queue_names
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.toolsets.caller import Caller, Credential
from coordinator.toolsets.gateway.rules.lint import problems
from coordinator.toolsets.gateway.store.audit import AuditEntry, AuditStore
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Call, Reply, Services, Toolset
from tests.support.schemas import decoded, must_keep_to
from tests.support.wait import wait_until
from workers.engine import Engine
from workers.listener import Listener
from workers.rq.relay import Relay
from workers.run_kinds import make_run_kinds
from workers.states import States
from workers.sweeper import Sweeper

Json = dict[str, Any]


class Refused(AssertionError):
    """A call was unexpectedly refused."""

    def __init__(self, body: Json) -> None:
        super().__init__(json.dumps(body))
        self.body = body


class NoChildren:
    """Executors of the gateway need no child processes for Python callables."""

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        raise AssertionError("nothing here calls Python callables")


def section(**parts: Any) -> Gateway:
    """The valid section ``gateway`` as settings hold it."""
    wrong: list[str] = []
    made = convert.convert({"version": "1.0.0", **parts}, Gateway, ("gateway",), lambda at, told: wrong.append(told))
    assert not wrong, wrong
    errors = [problem for problem in problems(made, None) if problem.level == "error"]
    assert not errors, errors
    assert isinstance(made, Gateway)
    return made


def states(**stated: Any) -> Json:
    """A workflow of these states that begins in the first one."""
    return {"initialState": next(iter(stated)), "states": stated}


def settings_of(gateway: Gateway | None, project: str, **more: Any) -> Settings:
    """Settings whose steps only this project's worker takes."""
    pool = f"p{project}"
    steps = StepSettings(pools=(pool,), project_pools={project: pool}, slots=8)
    connections = more.pop("connections", None)
    stated = {name: msgspec.convert(one, Connection) for name, one in (connections or {}).items()} or None
    return Settings(gateway=gateway, steps=steps, connections=stated, **more)


class Lab:
    """One process's gateway.

    Args:
        caller: who is calling, authenticated.
        agent: what the header Fleet-Agent says.
    """

    def __init__(
        self,
        store: Store,
        project: str,
        settings: Settings,
        caller: Caller | None = None,
        toolset: Toolset | None = None,
        room: Waits | None = None,
        agent: str = "",
    ) -> None:
        self.agent = agent
        self.store = store
        self.project = project
        self.settings = settings
        self.room = room or Waits(FeedReader(store))
        """Of waiting reads."""
        services = Services(settings, store, trust_self_reported, self.room)
        self.toolset = toolset or load_toolsets(services)["gateway"]
        self.tools = {tool.name: tool for tool in self.toolset.tools}
        self._caller = caller

    def as_(
        self,
        id: str,
        *roles: str,
        permissions: tuple[str, ...] = (),
        credential: Credential | None = None,
        agent: str = "",
    ) -> Lab:
        """The same process with an authenticated caller."""
        caller = Caller(id, "user", frozenset(roles), frozenset(permissions), credential)
        return Lab(self.store, self.project, self.settings, caller, self.toolset, self.room, agent)

    async def reply(self, tool: str, **arguments: Any) -> tuple[Json, bool]:
        """The structured content of an answer, and whether it is a refusal. Raises ToolFailure."""
        called = self.tools[tool]
        result: Any = await called.handler(
            Call(self.project, caller=self._caller, agent=self.agent), decoded(called, arguments)
        )
        failed = isinstance(result, Reply) and result.is_error
        body: Json = json.loads(msgspec.json.encode(result.structured if isinstance(result, Reply) else result))
        must_keep_to(called.result, body)
        assert failed == ("error" in body)
        assert body["links"] or body.get("terminal") or body.get("inFlight") is not None
        return body, failed

    async def __call__(self, tool: str, **arguments: Any) -> Json:
        """The answer to a call that must succeed."""
        body, failed = await self.reply(tool, **arguments)
        if failed:
            raise Refused(body)
        return body

    async def refused(self, tool: str, **arguments: Any) -> Json:
        """The body of a call that must be refused."""
        body, failed = await self.reply(tool, **arguments)
        assert failed, body
        return body

    async def start(self, definition: str, **given: Any) -> Json:
        """Starts a workflow."""
        return await self("workflow.start", definitionId=definition, input=given)

    async def call(self, capability: str, **arguments: Any) -> Json:
        """Calls a capability in a session of its own."""
        return await self.start("proxy_default", capability=capability, **arguments)

    async def follow(self, answer: Json, transition: str, **arguments: Any) -> Json:
        """Follows a link of an answer."""
        return await self("workflow.submit", **self.link(answer, transition, **arguments))

    async def follow_refused(self, answer: Json, transition: str, **arguments: Any) -> Json:
        """Follows a link, or an invented one; must be refused."""
        return await self.refused("workflow.submit", **self.link(answer, transition, **arguments))

    def link(self, answer: Json, transition: str, **arguments: Any) -> Json:
        """The arguments of a submit: as the link says if there is one."""
        for link in answer["links"]:
            if link["args"].get("transition") == transition:
                found: Json = link["args"]
                return {**found, "arguments": {**found["arguments"], **arguments}}
        return {
            "workflowId": answer["workflowId"],
            "expectedVersion": answer["version"],
            "transition": transition,
            "arguments": arguments,
        }

    async def get(self, answer: Json) -> Json:
        """The current instance of an answer."""
        return await self("workflow.get", workflowId=answer["workflowId"])

    async def settled(self, answer: Json) -> Json:
        """The instance once no operation is in progress."""

        async def look() -> Json:
            found = await self.get(answer)
            return {} if "inFlight" in found else found

        return await wait_until(look, what="the end of the operation")

    async def audit(self, answer: Json | None = None) -> list[AuditEntry]:
        """The audit, of one instance."""
        found = await AuditStore(self.store, self.settings).newest(self.project, 1000)
        return [entry for entry in found if answer is None or entry.workflow_id == answer["workflowId"]]

    async def told(self, answer: Json) -> list[str]:
        """What the change feed tells of an instance, without what it tells of its steps."""
        found = await position.read(self.store, Cursor(self.project, "", START), 1000)
        fields = [dict(zip(flat[::2], flat[1::2], strict=True)) for _, flat in found.rows]
        return [one["k"] for one in fields if one.get("i") == answer["workflowId"] and one["k"].startswith("gateway_")]

    async def close(self) -> None:
        """Stops the toolset's background tasks."""
        await self.toolset.service.stop()


class Worker:
    """A worker of one project in the test's event loop."""

    def __init__(self, store: Store, settings: Settings, name: str = "w") -> None:
        handoff = Handoff.of(settings, store)
        names = queue_names(settings.steps.pools)

        def serve(own: bool) -> None:
            handoff.identify_worker(name, [self.states.queue, *names] if own else names)

        self.states = States(store, serve)
        serve(False)
        self.steps = StepStore(store, handoff)
        self.kinds = make_run_kinds(settings, store, NoChildren(), self.states)
        self._relay = Relay(self.steps, store)
        self._relays = not handoff.direct
        tell = self._relay.tell
        self.engine = Engine(self.steps, self.kinds, settings.steps.slots, tell, lambda job, queue: None)
        self._listener = Listener(self.engine, self.steps, store, names, own=self.states.queue)
        self._sweeper = Sweeper(
            name, self.steps, list(self.kinds.values()), self.engine.held_in, self.engine.lost_reply, tell
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Self:
        """Starts the worker."""
        for kind in self.kinds.values():
            await kind.executor.start()
        await self.engine.start()
        loop = asyncio.get_running_loop()
        parts = [
            self._listener.run(),
            self._sweeper.run(),
            self.states.run(),
            *([self._relay.run()] if self._relays else []),
        ]
        self._tasks = [loop.create_task(part) for part in parts]
        return self

    async def abandon(self) -> None:
        """Stops as if it were killed, but for the processes that it has started: ``close`` ends these."""
        await end_tasks(*self._tasks)
        await self.engine.end()

    async def stop(self) -> None:
        """Drains."""
        await end_tasks(*self._tasks)
        await self.states.give_up(for_good=True)
        await self.engine.stop(asyncio.get_running_loop().time() + 2.0)
        await self.close()

    async def close(self) -> None:
        """Ends what it has started."""
        for kind in self.kinds.values():
            await kind.executor.stop()
