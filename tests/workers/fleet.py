"""A running fleet, and flows that a test starts directly in the store."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import Any

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.embedded.server import find_running
from coordinator.store.idempotency import NO_KEY
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.store.flows import FlowRecord, FlowStore, NewFlow, StepRecord
from tests.support.fleets import RunningFleet
from tests.support.wait import PATIENCE, process_alive, wait_until

OVER = ("completed", "failed", "cancelled")


def echo(value: Any = 1, **more: Any) -> dict[str, Any]:
    """Of a step that returns a value."""
    return {"tool": "echo", "args": {"value": value}, **more}


def sleep(milliseconds: int, **more: Any) -> dict[str, Any]:
    """Of a step that waits."""
    return {"tool": "sleep", "args": {"ms": milliseconds}, **more}


def fan(width: int, branch: dict[str, Any], end: dict[str, Any]) -> spec.Flow:
    """``start``, so many branches at once, and ``end``."""
    names = [f"b{number}" for number in range(width)]
    return {
        "start": spec.Step(name="start", **echo(), parallel=tuple(names)),
        **{name: spec.Step(name=name, **branch, join="end", fork="start") for name in names},
        "end": spec.Step(name="end", **end, done=True),
    }


def chain(*steps: dict[str, Any]) -> spec.Flow:
    """One step after the other: ``start``, ``s1`` ..."""
    keys_ = ["start", *(f"s{number}" for number in range(1, len(steps)))]
    follows: list[dict[str, Any]] = [*({"next": key} for key in keys_[1:]), {"done": True}]
    return {
        key: spec.Step(name=key, **step, **following)
        for key, step, following in zip(keys_, steps, follows, strict=True)
    }


class Flows:
    """Starts and watches flows of one project."""

    def __init__(self, store: Store, project: str = "default", settings: Settings | None = None) -> None:
        self.store = store
        self.project = project
        self.flows = FlowStore(store, settings or Settings())

    async def create(self, flow: spec.Flow) -> int:
        packed = spec.pack(spec.Spec(flow=flow, given={}))
        new = NewFlow(name="flow", creator="alice", spec=packed, steps=len(flow), plan=planner.begin(flow))
        return await self.flows.create(self.project, NO_KEY, new)

    async def get(self, flow: int) -> FlowRecord:
        found = await self.flows.get(self.project, flow)
        assert found is not None
        return found

    async def step(self, flow: int, key: str = "start") -> StepRecord:
        (found,) = [step for step in (await self.get(flow)).steps if step.key == key]
        return found

    async def ended(self, flows: Iterable[int], seconds: float = PATIENCE) -> list[FlowRecord]:
        """The flows, once all of them have ended."""
        records = []
        for flow in flows:

            async def over(flow: int = flow) -> FlowRecord | None:
                found = await self.get(flow)
                return found if found.row.status in OVER else None

            record = await wait_until(over, seconds, f"the end of flow {flow}")
            assert record is not None
            records.append(record)
        return records

    async def events(self, kind: str) -> list[dict[str, str]]:
        """Events of this kind."""
        entries = await self.store.command("XRANGE", keys.events.key(self.project), "-", "+")
        emitted = [
            {name.decode(): value.decode() for name, value in zip(fields[::2], fields[1::2], strict=True)}
            for _, fields in entries
        ]
        return [event for event in emitted if event["k"] == kind]

    async def now(self) -> int:
        """The store's time in ms."""
        seconds, micros = await self.store.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


def assert_recorded_once(record: FlowRecord, steps: Sequence[str]) -> None:
    """Checks that a completed flow has each of its steps once, done."""
    assert record.row.status == "completed", record
    assert sorted(step.key for step in record.steps) == sorted(steps), record
    assert len({step.id for step in record.steps}) == len(steps)
    assert {step.status for step in record.steps} == {"done"}


class Fleet(RunningFleet):
    """``fleet up`` with the demo tools, one front-end and several workers."""

    @property
    def workers(self) -> dict[str, int]:
        """Process ids by slot, of those that run."""
        return {one.slot: one.pid for one in self.state.processes if one.pid and one.slot.startswith("w-")}

    @property
    def url(self) -> str:
        """Of the store."""
        url = find_running(str(self.data_dir))
        assert url is not None
        return url

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        if process_alive(pid):
            os.kill(pid, number)

    def holder(self, step: int, project: str = "default") -> int:
        """The process that executes a step."""
        with redis_client(parse(self.url)) as client:
            name = client.hget(keys.step.key(project, str(step)), "w")
        assert isinstance(name, bytes), name
        return int(name.decode().rsplit(".", 2)[1])
