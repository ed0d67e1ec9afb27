"""The flows toolset as a caller sees it, without a front-end: tools by name, JSON in, JSON out."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Call, Reply, Services
from tests.support.schemas import decoded, must_keep_to

Json = dict[str, Any]


def gate(name: str, **more: Any) -> Json:
    """A gate."""
    return {"name": name, "tool": None, **more}


ONE_GATE: Json = {"start": gate("wait", done=True)}


class Flows:
    """Calls the tools of flows on one project.

    Args:
        caller: who is calling, authenticated.
    """

    def __init__(
        self, store: Store, project: str, settings: Settings | None = None, caller: Caller | None = None
    ) -> None:
        self.store = store
        self.project = project
        self.settings = settings or Settings()
        self._caller = caller
        self.room = Waits(FeedReader(store))
        """Of waiting reads."""
        toolset = load_toolsets(Services(self.settings, store, trust_self_reported, self.room))["flows"]
        self.tools = {tool.name: tool for tool in toolset.tools}

    def as_(self, id: str, *permissions: str, roles: tuple[str, ...] = ()) -> Flows:
        """The same project with an authenticated caller."""
        caller = Caller(id, "user", frozenset(roles), frozenset(permissions))
        return Flows(self.store, self.project, self.settings, caller)

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The structured content of the answer. Raises ToolFailure."""
        called = self.tools[tool]
        result: Any = await called.handler(Call(self.project, caller=self._caller), decoded(called, arguments))
        if isinstance(result, Reply):
            assert not called.result
            result = result.structured
        else:
            assert isinstance(result, called.result)
            must_keep_to(called.result, json.loads(msgspec.json.encode(result)))
        return json.loads(msgspec.json.encode(result))

    async def refusal(self, tool: str, **arguments: Any) -> ToolFailure:
        """The failure of a call that must fail."""
        try:
            answer = await self(tool, **arguments)
        except ToolFailure as failure:
            return failure
        raise AssertionError(f"{tool} was not refused but answered {answer}")

    async def create(self, flow: Json = ONE_GATE, name: str = "flow", **more: Any) -> int:
        """Creates a workflow and returns its id."""
        answer = await self("workflow_create", name=name, flow=flow, **more)
        assert answer["status"] == "started"
        return int(answer["id"])

    async def get(self, workflow: int) -> Json:
        found: Json = await self("workflow_get", id=workflow)
        return found

    async def step(self, workflow: int, name: str) -> Json:
        """The step of that name."""
        return next(step for step in (await self.get(workflow))["steps"] if step["name"] == name)

    async def release(self, workflow: int, name: str = "wait", **more: Any) -> Json:
        """Releases the gate of that name."""
        answer: Json = await self("workflow_step_ready", step_id=(await self.step(workflow, name))["id"], **more)
        return answer
