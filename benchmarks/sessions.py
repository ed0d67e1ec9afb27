"""Do the calls of a workflow session cost little more than a health check, and how much memory does a session take?

Starts one front-end on a separate store and walks sessions over one connection, workflow after
workflow: each next_activity (with the manifest of the finished activity) and each get_activity is
followed by a health_check, so that all three run under the same load. Prints p50 and p99 as the client
sees them, and the ratios: on a bare socket, because what a client library takes for each call would bring them closer
to 1. Then starts sessions by the thousand and prints the memory of each in the
server, fresh and after a dozen calls with a checkpoint answered.

The definitions are the examples of the product, or those in the folder that TEST_WORKFLOWS names.

    python -m benchmarks sessions [CALLS] [SESSIONS] [FSYNC]
    python -m benchmarks sessions 3000 10000        # the sizes of the goals
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.server import Server
from benchmarks.support import Failed, ToolCalls, console, embedded, front_end, milliseconds, table
from coordinator.definitions import Definitions, LoadedWorkflow, shipped
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.workflows import Workflows
from coordinator.store import Store
from coordinator.toolsets.sessions.tools import toolset
from coordinator.toolsets.tool import Call, Reply, Services

GOAL, GOAL_BYTES = 2.0, 4096
BASE, NEXT, GET = "health_check", "next_activity", "get_activity"


def root() -> Path:
    """The folder of the definitions: the set with the most workflows."""
    named = os.environ.get("TEST_WORKFLOWS")
    sets = [shipped()]
    if named:
        sets += {path.parent.parent for path in Path(named).rglob("workflow.toon")}
    return max(sets, key=lambda root: len(list(root.glob("*/workflow.toon"))))


class Timed:
    """Calls over one connection, whose times are kept."""

    def __init__(self, port: int) -> None:
        self._calls = ToolCalls(port)
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.close = self._calls.close

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        seconds, result = self._calls.call("sessions", tool, **arguments)
        self.waits[tool].append(seconds)
        return result


def _walk(wire: Timed, workflow: LoadedWorkflow) -> None:
    token = wire.call("start_session", agent_id="bench", workflow_id=workflow.id)["_meta"]["session_token"]
    manifest: list[dict[str, str]] = []
    for name, loaded in workflow.activities.items():
        moved = wire.call(NEXT, session_token=token, activity_id=name, step_manifest=manifest)
        wire.call(BASE)
        token = wire.call(GET, session_token=moved["_meta"]["session_token"])["_meta"]["session_token"]
        wire.call(BASE)
        manifest = [{"step_id": step.id, "output": f"did {step.name}"} for step in loaded.activity.steps]


def _speed(url: str, definitions: Definitions, calls: int) -> dict[str, list[float]]:
    with (
        front_end(url, session_workflows=definitions.roots[0]) as server,
        contextlib.closing(Timed(server.port)) as wire,
    ):
        workflows = itertools.cycle(definitions.current.workflows.values())
        for warm in (True, False):
            while len(wire.waits[NEXT]) < (min(calls, 100) if warm else calls):
                _walk(wire, next(workflows))
            if warm:
                wire.waits.clear()
        return wire.waits


async def _sessions(url: str, definitions: Definitions, count: int) -> list[tuple[str, float]]:
    """Bytes per session: fresh ones, then the same after a dozen calls."""
    store, server = Store(url, 5000), Server(url)
    await store.open()
    settings = Settings(workflows=Workflows(min_checkpoint_response_seconds=0), events_max=1000)
    tools = {tool.name: tool for tool in toolset(Services(settings, store, trust_self_reported), definitions).tools}

    async def call(name: str, **arguments: Any) -> str:
        tool = tools[name]
        reply = await tool.handler(Call("bench"), msgspec.convert(arguments, tool.arguments))
        if not isinstance(reply, Reply) or reply.meta is None:
            raise Failed(f"{name} answered {reply}")
        return str(reply.meta["session_token"])

    workflow, activity, checkpoint = next(
        (workflow.id, name, asked)
        for workflow in definitions.current.workflows.values()
        for name, loaded in workflow.activities.items()
        for asked in loaded.activity.checkpoints
    )

    async def work(token: str) -> None:
        for _ in range(2):
            token = await call("get_workflow", session_token=token)
        token = await call("next_activity", session_token=token, activity_id=activity)
        for _ in range(5):
            token = await call("get_activity", session_token=token)
        token = await call("yield_checkpoint", session_token=token, checkpoint_id=checkpoint.id)
        token = await call("respond_checkpoint", checkpoint_handle=token, option_id=checkpoint.options[0].id)
        token = await call("resume_checkpoint", session_token=token)
        await call("next_activity", session_token=token, activity_id=activity)

    await work(await call("start_session", agent_id="bench", workflow_id=workflow))
    found = []
    before = server.used_memory()
    tokens = [await call("start_session", agent_id="bench", workflow_id=workflow) for _ in range(count)]
    found.append(("fresh", (server.used_memory() - before) / count))
    for token in tokens:
        await work(token)
    found.append(("after 12 calls", (server.used_memory() - before) / count))
    server.close()
    await store.close()
    return found


def main(calls: str = "600", sessions: str = "2000", fsync: str = "everysec") -> None:
    """Measures and prints."""
    definitions = Definitions([root()], 0)
    library = definitions.current
    with embedded(fsync) as store:
        waits = _speed(store.url, definitions, int(calls))
    with embedded("everysec") as store:
        memory = asyncio.run(_sessions(store.url, definitions, int(sessions)))
    rows = [
        (tool, f"{len(waits[tool]):,}", *(f"{milliseconds(waits[tool], share):.3f}" for share in (0.5, 0.99)),
         *(f"{milliseconds(waits[tool], share) / milliseconds(waits[BASE], share):.2f}x" for share in (0.5, 0.99)))
        for tool in (BASE, NEXT, GET)
    ]  # fmt: skip
    table(
        f"Calls of sessions over HTTP, ms; {len(library.workflows)} workflows, {library.files} files, log {fsync}",
        ("tool", "calls", "p50", "p99", "p50 to health_check", "p99 to health_check"),
        rows,
    )
    console.print(f"goal: p99 of {NEXT} and {GET} <= {GOAL}x of {BASE}\n")
    table(
        f"Memory of {int(sessions):,} sessions",
        ("state", "bytes per session", "MiB for all"),
        [(name, f"{size:,.0f}", f"{size * int(sessions) / 2**20:,.1f}") for name, size in memory],
    )
    console.print(f"goal: <= {GOAL_BYTES:,} bytes after 12 calls\n")
