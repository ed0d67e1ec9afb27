"""A running fleet with workers, and MCP clients on projects of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcp.client import Client
from mcp.types import TextContent

from tests.support.wait import PATIENCE, wait_until

Json = dict[str, Any]

TERMINAL = ("completed", "failed", "cancelled")


class Agent:
    """The tools of the flows toolset over a real MCP client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def modern(self) -> bool:
        """Whether it speaks revision 2026-07-28."""
        return self._client.protocol_version >= "2026-07-28"

    async def call(self, tool: str, **arguments: Any) -> tuple[Any, Any]:
        """Structured content and text of a call that must succeed."""
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        block, *_ = result.content  # perhaps a link to what was made after it
        assert isinstance(block, TextContent)
        return result.structured_content, json.loads(block.text)

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The text of the answer."""
        return (await self.call(tool, **arguments))[1]

    async def refusal(self, tool: str, **arguments: Any) -> Json:
        """The failure of a call that must fail."""
        result = await self._client.call_tool(tool, arguments)
        assert result.is_error, result.content
        structured: Any = result.structured_content
        found: Json = structured["error"]
        return found

    async def create(self, flow: Json, name: str = "flow", **more: Any) -> int:
        return int((await self("workflow_create", name=name, flow=flow, **more))["id"])

    async def get(self, workflow: int) -> Json:
        found: Json = await self("workflow_get", id=workflow, whole=True)
        return found

    async def until(self, workflow: int, reached: Callable[[Json], bool], what: str, timeout: float = PATIENCE) -> Json:
        """The workflow as soon as a predicate holds."""
        found: Json = {}

        async def there() -> bool:
            found.update(await self.get(workflow))
            return reached(found)

        try:
            await wait_until(there, timeout)
        except AssertionError:
            raise AssertionError(f"{what} not within {timeout} s: {json.dumps(found, indent=2)}") from None
        return found

    async def ended(self, workflow: int, status: str | None = "completed", timeout: float = PATIENCE) -> Json:
        """The workflow once it has ended, with this status if one is given."""
        found = await self.until(workflow, lambda one: one["status"] in TERMINAL, "an end", timeout)
        assert status is None or found["status"] == status, json.dumps(found, indent=2)
        return found

    async def run(self, flow: Json, status: str | None = "completed", **more: Any) -> dict[str, Json]:
        """Creates a workflow and waits for its end; its steps by name."""
        found = await self.ended(await self.create(flow, **more), status)
        return {step["name"]: step for step in found["steps"]}


def result(step: Json) -> Any:
    """The result of a step."""
    return json.loads(step["result_json"])
