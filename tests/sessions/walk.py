"""A whole session of an orchestrator and its worker, based only on the answers of the tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import UNSET

from coordinator.definitions import Activity, decoding, text, toon
from tests.sessions.client import Answer

Json = dict[str, Any]
TRACE_TOKEN = 3_000
"""The most characters of a trace token: agents carry it in their context."""


class Caller(Protocol):
    """Calls a tool over any transport."""

    def __call__(self, name: str, **arguments: Any) -> Awaitable[Answer]: ...


class Turns:
    """Calls each front-end in turn."""

    def __init__(self, fronts: Sequence[Caller]) -> None:
        self.fronts = fronts
        self.calls = 0

    def __call__(self, name: str, **arguments: Any) -> Awaitable[Answer]:
        self.calls += 1
        return self.fronts[self.calls % len(self.fronts)](name, **arguments)


@dataclass
class Walk:
    """One walk: to the first unvisited target, with true manifests, choosing first options.

    Args:
        between: called while a checkpoint is pending, with the number of those answered so far.
    """

    call: Caller
    workflow: str
    between: Callable[[int], Awaitable[None]] | None = None
    more: Json = field(default_factory=dict)
    """Further arguments of start_session."""
    activities: list[str] = field(default_factory=list)
    checkpoints: int = 0
    skills: int = 0
    missing: list[str] = field(default_factory=list)
    """Missing skills."""
    warnings: list[str] = field(default_factory=list)
    calls: int = 0
    segments: list[str] = field(default_factory=list)
    completed: bool = False
    token: str = ""

    async def run(self) -> Walk:
        """Walks to the end and reads the trace."""
        await self._begin()
        overview = toon.read((await self._read("get_workflow")).text.rsplit("\n---\n\n", 1)[-1]).data
        target: str | None = overview["initialActivity"] or overview["activities"][0]["id"]
        activity: Activity | None = None
        while target is not None:
            await self._go(activity, target)
            activity = await self._work()
            target = next((to for to in activity.targets() if self._open(to, overview)), None)
        assert activity is not None
        await self._end(activity)
        return self

    async def _begin(self) -> None:
        answer = await self._call("start_session", agent_id="orchestrator", workflow_id=self.workflow, **self.more)
        self.token = answer["session_token"]
        await self._read("get_skills")

    def _open(self, activity: str, overview: Json) -> bool:
        known = {stub["id"] for stub in overview["activities"]}
        return activity in known and activity not in self.activities

    async def _go(self, before: Activity | None, target: str) -> None:
        arguments: Json = {"activity_id": target}
        if before is not None:
            arguments["step_manifest"] = [{"step_id": step.id, "output": f"did {step.name}"} for step in before.steps]
            arguments["activity_manifest"] = [
                {"activity_id": activity, "outcome": "completed"} for activity in self.activities
            ]
            if (condition := claim(before, target)) is not None:
                arguments["transition_condition"] = condition
        answer = await self._read("next_activity", **arguments)
        assert answer["activity_id"] == target
        self.segments.append(answer.meta["trace_token"])
        assert len(self.segments[-1]) <= TRACE_TOKEN, (self.workflow, target)
        self.activities.append(target)

    async def _work(self) -> Activity:
        """A worker's calls in an activity."""
        answer = await self._call("start_session", agent_id="worker-1", session_token=self.token)
        assert answer["inherited"] is True
        self.token = answer["session_token"]
        head, _, raw = (await self._read("get_activity")).text.partition("\n\n")
        assert head == f"session_token: {self.token}"
        activity = decoding.convert(toon.read(raw).data, Activity)
        assert activity.id == self.activities[-1]
        for step in activity.all_steps():
            if step.skill is not UNSET:
                await self._skill(step.id)
        for checkpoint in activity.checkpoints:
            await self._ask(checkpoint.id, checkpoint.options[0].id)
        return activity

    async def _skill(self, step: str) -> None:
        answer = await self._attempt("get_skill", session_token=self.token, step_id=step)
        if answer.error:
            assert answer.text.startswith("Skill not found: ")
            self.missing.append(answer.text.removeprefix("Skill not found: "))
            return
        self.token = answer.token
        self.skills += 1

    async def _ask(self, checkpoint: str, option: str) -> None:
        yielded = await self._read("yield_checkpoint", checkpoint_id=checkpoint)
        if self.between is not None:
            await self.between(self.checkpoints)
        shown = await self._call("present_checkpoint", checkpoint_handle=yielded["checkpoint_handle"])
        assert shown.text.startswith(f"id: {checkpoint}\n")
        assert shown.text.endswith(f"\ncheckpoint_handle: {yielded['checkpoint_handle']}")
        answered = await self._call(
            "respond_checkpoint", checkpoint_handle=yielded["checkpoint_handle"], option_id=option
        )
        assert answered["resolved_option"] == option
        self.token = answered["checkpoint_handle"]
        await self._read("resume_checkpoint")
        self.checkpoints += 1

    async def _end(self, last: Activity) -> None:
        manifest = [{"step_id": step.id, "output": "done"} for step in last.steps]
        answer = await self._attempt(
            "next_activity", session_token=self.token, activity_id="__terminal__", step_manifest=manifest
        )
        if not answer.error:
            self.token = answer.token
            self.warnings += answer.warnings
        status = await self._call("get_workflow_status", session_token=self.token)
        self.completed = status["status"] == "completed"
        assert status["current_activity"] == self.activities[-1]
        left = self.activities if self.completed else self.activities[:-1]
        assert status["completed_activities"] == left
        whole = await self._call("get_trace", session_token=status["session_token"])
        # get_trace and get_workflow_status are not in the trace; present_checkpoint is.
        assert whole["event_count"] == self.calls - 2
        assert {event["traceId"] for event in whole["events"]} == {whole["traceId"]}
        resolved = await self._call("get_trace", session_token=whole.token, trace_tokens=self.segments)
        assert resolved["events"] == whole["events"][: resolved["event_count"]]
        assert "token_errors" not in resolved

    async def _read(self, name: str, **arguments: Any) -> Answer:
        """A call with the newest token; stores the next one."""
        answer = await self._call(name, session_token=self.token, **arguments)
        self.token = answer.token
        self.warnings += answer.warnings
        return answer

    async def _call(self, name: str, **arguments: Any) -> Answer:
        answer = await self._attempt(name, **arguments)
        assert not answer.error, f"{self.workflow}, {name}: {answer.text}"
        return answer

    async def _attempt(self, name: str, **arguments: Any) -> Answer:
        self.calls += 1
        return await self.call(name, **arguments)


def claim(activity: Activity, target: str) -> str | None:
    """The condition to claim for a way out, as defined; None to claim nothing."""
    for transition in activity.transitions:
        if transition.to == target:
            if transition.condition is not UNSET:
                return text(transition.condition)
            return "default" if transition.is_default else None
    return None
