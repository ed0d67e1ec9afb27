"""Runs of workflows, which the fleet's workers execute."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from coordinator.client.core import Core
from coordinator.client.errors import Refused


class Run:
    """A run of a workflow."""

    def __init__(self, core: Core, id: str) -> None:
        self.id = id
        self._core = core

    async def result(self) -> Any:
        """Waits for its end; returns what its last step has returned. Raises Refused, with the workflow in ``data``."""
        flow = await self._wait("ended")
        if flow["status"] != "completed":
            raise Refused(flow["status"], flow.get("reason", f"the workflow was {flow['status']}"), flow)
        last: Any = None
        async for step in self.steps():
            last = step
        return None if last is None or last["result_json"] is None else msgspec.json.decode(last["result_json"])

    async def steps(self) -> AsyncIterator[dict[str, Any]]:
        """Its steps so far, in order of creation, with their whole results."""
        after: int | None = None
        while True:
            page = {"id": self.id, "whole": True} if after is None else {"id": self.id, "whole": True, "after": after}
            flow = await self._core.call("workflow_get", page)
            for step in flow["steps"]:
                yield step
            after = flow.get("next_after")
            if after is None:
                return

    async def approvals(self) -> AsyncIterator[dict[str, Any]]:
        """Its gates, as soon as each waits for a release, until it ends. Release them with ``approve``."""
        known: set[int] = set()
        after = None
        while True:
            flow = await self._wait("changed", after) if known else await self._wait("attention")
            after = flow["waited"]["after"]
            async for step in self.steps():
                if step["tool"] is None and step["status"] == "running" and step["id"] not in known:
                    known.add(step["id"])
                    yield step
            if flow["status"] in ("completed", "failed", "cancelled"):
                return

    async def approve(self, step: int) -> None:
        """Releases a gate. Raises Refused: it does not wait for that."""
        answer = await self._core.call("workflow_step_ready", {"step_id": step})
        if not answer["queued"]:
            raise Refused("refused", str(answer.get("error")), answer)

    async def cancel(self) -> bool:
        """Cancels it; returns whether it was still going on."""
        return bool((await self._core.call("workflow_cancel", {"id": self.id}))["cancelled"])

    async def _wait(self, for_what: str, after: str | None = None) -> dict[str, Any]:
        waits = {"id": self.id, "waitFor": for_what} | ({} if after is None else {"after": after})
        return await self._core.until_met("workflow_get", waits)
