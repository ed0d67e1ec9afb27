"""Tools whose calls become tasks, for the official conformance suite: jobs in the memory of one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec import Meta, Struct

from coordinator.settings import Settings
from coordinator.settings.sections.workflows import Signing
from coordinator.toolsets.deferral import Pending, Stopped
from coordinator.toolsets.questions import Question
from coordinator.toolsets.tool import Call, Deferral, Reply, Tool
from coordinator.transport.envelope import TASKS
from coordinator.transport.rounds.sealing import Seals

REQUIRED = ("failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task")
"""Tools that answer with a task or not at all."""


class Nothing(Struct, forbid_unknown_fields=True):
    pass


class Named(Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="Who is greeted.")]


class Compute(Struct, forbid_unknown_fields=True):
    seconds: Annotated[float, Meta(description="For how long.")] = 0.0
    label: Annotated[str, Meta(description="Any text.")] = ""


class File(Struct, forbid_unknown_fields=True):
    filename: Annotated[str, Meta(description="Which one.")]


class JobId(Struct):
    """What a task consists of."""

    number: int


@dataclass
class Job:
    """A call that goes on."""

    ends: float
    result: Callable[[], Reply]
    asked: list[str] = field(default_factory=list)
    """Questions that are not answered yet."""
    stopped: bool = False


def said(text: str, failed: bool = False) -> Reply:
    return Reply(text=text, is_error=failed)


def _broken() -> Reply:
    raise RuntimeError("broken on purpose")


def _question(key: str) -> Question:
    fields = {"name": {"type": "string"}, "confirm": {"type": "boolean"}}
    return Question(message=f"{key}?", fields=fields, state=key, key=key, otherwise=said("nobody was asked"))


class _Store:
    """The time, and the keys of projects."""

    fences = SimpleNamespace(changes=0)

    async def time(self) -> int:
        return int(time.time() * 1000)

    async def run(self, *_: object) -> tuple[str, list[tuple[str, str]]]:
        return "", []

    async def command(self, *_: object) -> list[bytes]:
        return []


def seals() -> Seals:
    """Seals without a store."""
    store: Any = _Store()
    return Seals(store, Settings(signing=Signing(keys=("one:" + "11" * 32,))))


class Jobs:
    """The tools, and the jobs that they have begun."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def tools(self) -> list[Tool]:
        deferral = Deferral(JobId, self._read, self._stop)

        def tool(name: str, arguments: type[Struct], handler: Any, **more: Any) -> Tool:
            # Calls that may wait go to the SDK's server, which refuses clients without tasks (``check_declared``).
            waits = None if name not in REQUIRED else lambda _: True
            return Tool(name, f"Fixture {name}.", arguments, (), handler, deferral=deferral, waits=waits, **more)

        return [
            Tool("greet", "Fixture greet.", Named, (), _greet),
            tool("slow_compute", Compute, self._compute),
            tool("failing_job", Nothing, self._job(1.0, lambda: said("failed", True))),
            tool("protocol_error_job", Nothing, self._job(0.5, _broken)),
            tool("confirm_delete", File, self._job(0.0, lambda: said("deleted"), "confirm"), asks=True),
            tool("multi_input", Nothing, self._job(0.0, lambda: said("both"), "first", "second"), asks=True),
            tool("test_tool_with_task", Nothing, self._after_a_question, asks=True),
        ]

    def _begin(self, seconds: float, result: Callable[[], Reply], *asked: str) -> Pending:
        self._jobs.append(Job(time.monotonic() + seconds, result, list(asked)))
        return Pending(state=JobId(len(self._jobs) - 1), ttl_ms=600_000, message="at work", otherwise=said("no task"))

    def _job(self, seconds: float, result: Callable[[], Reply], *asked: str) -> Any:
        async def begin(_call: Call, _arguments: Any) -> Pending:
            return self._begin(seconds, result, *asked)

        return begin

    async def _compute(self, call: Call, given: Compute) -> Any:
        done = said(f"computed {given.label}")
        return self._begin(given.seconds, lambda: done) if given.seconds and call.can_defer else done

    async def _after_a_question(self, call: Call, _arguments: Nothing) -> Any:
        if call.answer is None:
            return _question("user_name")
        name = call.answer.content["name"]
        return self._begin(0.2, lambda: said(f"Hello, {name}!"))

    async def _read(self, call: Call, state: JobId) -> Any:
        job = self._jobs[state.number]
        if call.answer is not None:
            job.asked.remove(call.answer.state)
        if job.stopped:
            return Stopped()
        if job.asked or time.monotonic() < job.ends:
            questions = tuple(map(_question, job.asked))
            return Pending(state=state, ttl_ms=1, message="at work", otherwise=None, questions=questions)
        return job.result()

    async def _stop(self, _call: Call, state: JobId) -> Reply:
        self._jobs[state.number].stopped |= time.monotonic() < self._jobs[state.number].ends
        return said("")


async def _greet(_call: Call, given: Named) -> Reply:
    return said(f"Hello, {given.name}!")


def check_declared(context: Any, tool: str) -> None:
    """Refuses a call that can only be a task, of a client that has no tasks."""
    declared = context.session.client_capabilities
    if tool in REQUIRED and TASKS not in ((declared.extensions if declared is not None else None) or {}):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"{tool} needs {TASKS}", required)
