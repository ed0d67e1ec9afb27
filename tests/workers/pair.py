"""Two workers in the test's event loop, in front of a server that keeps states, and those who use it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from coordinator.settings import Settings, convert
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.store import Store, keys
from coordinator.toolsets.flows.store.flows import FlowRecord
from tests.gateway.lab import Lab, Worker, settings_of
from tests.workers.fleet import Flows, chain

Json = dict[str, Any]
CAPABILITIES: Json = {
    name: {
        "title": name,
        "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}, "path": {"type": "string"}}},
        "executor": {"kind": "mcp", "connection": "it", "tool": name},
    }
    for name in ("add", "hold", "die")
}


class Pair:
    """Two workers, and those who let them work."""

    def __init__(self, store: Store, project: str, connection: Connection, queue_url: str, gateway: Json) -> None:
        self.settings = self.with_connection(connection, project, queue_url, gateway)
        self.project = project
        self.store = store
        self.flows = Flows(store, project, self.settings)
        self.lab = Lab(store, project, self.settings)
        self.workers = [Worker(store, self.settings, name) for name in ("w1", "w2")]

    def with_connection(self, connection: Connection, project: str, queue_url: str, gateway: Json) -> Settings:
        wrong: list[str] = []
        stated = {"version": "1.0.0", "capabilities": CAPABILITIES, **gateway}
        made = convert.convert(stated, Gateway, ("gateway",), lambda at, told: wrong.append(told))
        assert not wrong, wrong
        found = msgspec.structs.replace(settings_of(made, project), connections={"it": connection})
        steps = msgspec.structs.replace(found.steps, queue_url=queue_url)
        return msgspec.structs.replace(found, steps=steps)

    def configure(self, connection: Connection) -> None:
        """Changes the connection."""
        self.settings = msgspec.structs.replace(self.settings, connections={"it": connection})
        for worker in self.workers:
            for kind in worker.kinds.values():
                kind.executor.configure(self.settings)

    async def ended(self, *steps: Json) -> FlowRecord:
        """A flow of these steps, when it has ended."""
        (found,) = await self.flows.ended([await self.flows.create(chain(*steps))])
        return found

    async def gate(self, flow: int) -> int:
        """The gate at which a flow waits; 0: at none."""
        return next((step.id for step in (await self.flows.get(flow)).steps if step.gate and step.status != "done"), 0)

    async def said(self, word: str, who: str = "ann", agent: str = "", tool: str = "add", **more: str) -> list[str]:
        """The words of a caller's state, after one more."""
        answer = await self.lab.as_(who, agent=agent).call(tool, word=word, **more)
        found: list[str] = answer["context"]["lastResult"]["words"]
        return found

    async def failure(self, word: str, who: str = "ann", agent: str = "", **more: str) -> str:
        """The class of the failure of such a call."""
        lab = self.lab.as_(who, agent=agent)
        body = await lab.refused(
            "workflow.start", definitionId="proxy_default", input={"capability": "add", "word": word, **more}
        )
        assert body["error"]["code"] == "EXECUTOR_FAILED", body
        found: str = body["error"]["details"]["errorClass"]
        return found

    async def lost_once(self, word: str, who: str = "ann") -> None:
        """Checks that a caller is told once that the state is lost, and then goes on with a new one."""
        assert await self.failure(word, who) == "state_lost"
        assert await self.said(word, who) == [word]

    def owner(self, word: str = "") -> Worker:
        """The worker that has a state."""
        (found,) = [worker for worker in self.workers if worker.states.held]
        return found

    async def expire(self) -> None:
        """Ends the leases of workers on states."""
        for worker in self.workers:
            await self.store.command("ZADD", keys.state_leases.key(keys.FLEET), "XX", 1, worker.states.id)


def add(word: str, **more: Any) -> Json:
    return {"tool": "it.add", "args": {"word": word}, **more}


def words(flow: FlowRecord) -> list[list[str]]:
    """What the steps of a completed flow have returned."""
    assert flow.row.status == "completed", flow
    return [json.loads(step.result_json or "")["words"] for step in flow.steps]


def pids(flow: FlowRecord) -> set[int]:
    return {json.loads(step.result_json or "")["pid"] for step in flow.steps}
