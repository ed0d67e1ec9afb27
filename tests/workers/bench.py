"""An engine with made-up tools, in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from coordinator.settings import Settings
from coordinator.steps.handoff import Handoff, queue_names
from coordinator.steps.model import Failure, Outcome, StepRun, Success, Work
from coordinator.steps.run_kind import Executor, RunKind
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.run_kind import FlowRunKind
from coordinator.toolsets.flows.store.flows import FlowRecord, FlowStore, NewFlow
from tests.support.wait import PATIENCE, wait_until
from workers.engine import Engine
from workers.listener import Listener

Tool = Callable[[StepRun, Any], Awaitable[Any]]


class Tools(Executor):
    """An executor that knows ``echo`` (returns its ``value``) and what a test adds."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.began: Counter[str] = Counter()
        """Attempts by step key."""
        self.ended: Counter[str] = Counter()

    async def execute(self, step: StepRun, work: Work) -> Outcome:
        self.began[step.key] += 1
        try:
            if work.tool == "echo":
                return Success(work.arguments.get("value"))
            found = await self.tools[work.tool or ""](step, work.arguments)
            return found if isinstance(found, (Success, Failure)) else Success(found)
        finally:
            self.ended[step.key] += 1


async def _permits(project: str, creator: Caller, tool: str) -> str:
    return ""


def chain(*steps: Mapping[str, Any]) -> spec.Flow:
    """A flow of these steps, one after the other; the first is ``start``, then ``s1`` ..."""
    keys = ["start", *(f"s{number}" for number in range(1, len(steps)))]
    last = len(steps) - 1
    return {
        key: spec.Step(
            name=key, **{"tool": "echo", **step}, **({"done": True} if at == last else {"next": keys[at + 1]})
        )
        for at, (key, step) in enumerate(zip(keys, steps, strict=True))
    }


def fan(width: int, **branch: Any) -> spec.Flow:
    """A fork of so many branches, and a join."""
    names = [f"b{number}" for number in range(width)]
    return {
        "start": spec.Step(name="start", parallel=tuple(names)),
        **{name: spec.Step(name=name, **{"tool": "echo", **branch}, join="end", fork="start") for name in names},
        "end": spec.Step(name="end", tool="echo", done=True),
    }


class Bench:
    """A store, flows, and one engine.

    Args:
        slots: of the engine.
        queue: where the queues are, if not in the store; the settings must say so, too.
    """

    def __init__(
        self,
        store: Store,
        slots: int = 4,
        settings: Settings | None = None,
        name: str = "w1",
        queue: Store | None = None,
    ) -> None:
        self.store = store
        self.queue = queue or store
        self.settings = settings or Settings()
        self.flows = FlowStore(store, self.settings)
        self.tools = Tools()
        handoff = Handoff.of(self.settings, store)
        self.queues = queue_names(self.settings.steps.pools)
        handoff.identify_worker(name, self.queues)
        self.steps = StepStore(store, handoff, queue)
        self.kinds: dict[str, RunKind] = {"flows": FlowRunKind(self.flows, _permits, self.tools)}
        self.outboxes: list[str] = []
        self.plain_jobs: list[tuple[str, str]] = []
        self.engine = Engine(
            self.steps, self.kinds, slots, self.outboxes.append, lambda job, queue: self.plain_jobs.append((job, queue))
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, listen: bool = True) -> None:
        """Starts the engine; without ``listen`` it only gets the steps that the test takes."""
        await self.engine.start()
        if listen:
            listener = Listener(self.engine, self.steps, self.queue, self.queues)
            self._tasks.append(asyncio.create_task(listener.run()))

    async def stop(self, seconds: float = 0.0) -> None:
        """Drains."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.engine.stop(asyncio.get_running_loop().time() + seconds)

    async def create(self, flow: spec.Flow, **more: Any) -> int:
        packed = spec.pack(spec.Spec(flow=flow, given={}))
        values = {"name": "flow", "creator": "alice", "spec": packed, "steps": len(flow), **more}
        return await self.flows.create("default", NO_KEY, NewFlow(plan=planner.begin(flow), **values))

    async def flow(self, flow: int) -> FlowRecord:
        found = await self.flows.get("default", flow)
        assert found is not None
        return found

    async def ended(self, flow: int, seconds: float = PATIENCE) -> FlowRecord:
        """The flow, once it has ended."""

        async def over() -> FlowRecord | None:
            found = await self.flow(flow)
            return found if found.row.status != "running" else None

        found = await wait_until(over, seconds, f"the end of flow {flow}")
        assert found is not None
        return found

    async def result(self, flow: int, key: str = "start") -> tuple[str, str | None]:
        """Status and result of a step, once the flow has ended."""
        (step,) = [step for step in (await self.ended(flow)).steps if step.key == key]
        return step.status, step.result_json


async def hang(step: StepRun, arguments: Any) -> None:
    """A tool that never ends."""
    await asyncio.Event().wait()
