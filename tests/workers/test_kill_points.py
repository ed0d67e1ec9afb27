"""A worker killed at a chosen point of a step: each step is recorded once, and called at most once more."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from coordinator.steps.model import job_id
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.flows.rules import spec
from tests.support.downstream import RawHttp
from tests.support.held import HoldingProxy
from tests.workers.conftest import Start
from tests.workers.fleet import Flows, assert_recorded_once

pytestmark = pytest.mark.anyio

Point = Literal["taken", "called", "answered", "recorded"]
FLOW: spec.Flow = {
    "start": spec.Step(name="start", tool="it.one", next="step-two"),
    "step-two": spec.Step(name="step-two", tool="it.two", done=True),
}


class Asked(NamedTuple):
    """A call that the tool has received and not answered yet."""

    tool: str
    key: str
    answer: threading.Event


class Tools(RawHttp):
    """A downstream server whose answers wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: queue.Queue[Asked] = queue.Queue()
        self.keys: list[tuple[str, str]] = []
        """Tool and idempotency key of each call."""

    def called(self, request: dict[str, Any]) -> None:
        params = request["params"]
        asked = Asked(params["name"], params["_meta"]["fleet-coordinator/idempotency-key"], threading.Event())
        self.keys.append(asked[:2])
        self._asked.put(asked)
        asked.answer.wait(60)

    async def asked(self, tool: str) -> Asked:
        """The next call, which must be of this tool."""
        found = await asyncio.to_thread(self._asked.get, timeout=60)
        assert found.tool == tool
        return found


@pytest.fixture
def tools() -> Iterator[Tools]:
    with Tools() as tools:
        yield tools


@pytest.mark.parametrize(
    "point", ["recorded", *(pytest.param(one, marks=pytest.mark.chaos) for one in ("taken", "called", "answered"))]
)
async def test_a_step_continues_where_its_worker_was_killed(
    server: EmbeddedServer, store: Store, start: Start, tools: Tools, tmp_path: Path, point: Point
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"connections: {{it: {{kind: mcp, url: '{tools.url}/mcp'}}}}\n")
    flows = Flows(store)
    with HoldingProxy(server.url) as proxy:
        first = await asyncio.to_thread(start, FLEET_REDIS_URL=proxy.url, FLEET_CONFIG=str(config))
        if point == "taken":
            proxy.replies.marker = b"step-two"  # the spec, which comes with the first step of a flow
        flow = await flows.create(FLOW)
        asked = None if point == "taken" else await tools.asked("one")
        if point == "answered":
            proxy.requests.marker = b"report_steps"
        elif point == "recorded":
            proxy.replies.marker = b"step-two"  # taken in the same call that records the one before
        if asked is not None and point != "called":
            asked.answer.set()
        hold = {"taken": proxy.replies, "answered": proxy.requests, "recorded": proxy.replies}.get(point)
        if hold is not None:
            assert await asyncio.to_thread(hold.held.wait, 60)
        first.end(signal.SIGKILL)
        if asked is not None:
            asked.answer.set()  # even if nobody receives it
        recorded = [event["n"] for event in await flows.events("step_done")]
        assert recorded == (["start"] if point == "recorded" else [])

        await asyncio.to_thread(start, FLEET_CONFIG=str(config))
        if point != "recorded":
            again = await tools.asked("one")
            if point == "answered":
                # The report of the killed worker arrives when another has the step.
                proxy.requests.free.set()
                assert await asyncio.to_thread(proxy.answered.wait, 60)
                step = await flows.step(flow)
                assert (step.status, step.attempt) == ("running", 2)
                assert await flows.events("step_done") == []
            again.answer.set()
        (await tools.asked("two")).answer.set()
        (record,) = await flows.ended([flow])

    assert_recorded_once(record, list(FLOW))
    attempts = {"start": 1, "step-two": 2} if point == "recorded" else {"start": 2, "step-two": 1}
    assert {step.key: step.attempt for step in record.steps} == attempts
    done = await flows.events("step_done")
    assert [(event["n"], int(event["f"])) for event in done] == [*attempts.items()], "by the fence, once each"
    assert len(await flows.events("step_lost")) == 1
    calls = Counter(tools.keys)
    first_step, second_step = (job_id(flows.project, str(flow), str(step.id), 0)[:-2] for step in record.steps)
    assert calls == {("one", first_step): 2 if point in ("called", "answered") else 1, ("two", second_step): 1}
