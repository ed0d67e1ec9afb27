"""Calls of steps are retried when a server, or the coordinator itself, sheds them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.identity.actors.resolver import Actors
from coordinator.settings.sections.identity import ActorAuthentication
from coordinator.steps.model import Failure, StepRun, Success
from coordinator.store import Store
from coordinator.toolsets.tool import Call, Tool, Toolset
from workers.tools import retrying
from workers.tools.downstream import ServerTools
from workers.tools.own import OwnTools

pytestmark = pytest.mark.anyio
STEP = StepRun("default", "flows", "10", "11", 1, "start", "", "", "", "", 0, 0, 0, 0, "")


def refusal(kind: str, code: str, **more: int) -> types.CallToolResult:
    content = {"error": {"kind": kind, "code": code, "message": "because", **more}}
    return types.CallToolResult(content=[], structured_content=content, is_error=True)


DONE = types.CallToolResult(content=[], structured_content={"n": 7}, is_error=False)


class Server:
    """A downstream server with scripted answers."""

    def __init__(self, *answers: types.CallToolResult) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, Any, str]] = []

    async def call(self, tool: str, arguments: Mapping[str, Any], idempotency_key: str) -> types.CallToolResult:
        self.calls.append((tool, dict(arguments), idempotency_key))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def without_secrets(self, text: str) -> str:
        return text


async def call(server: Server) -> Any:
    made: Any = server
    found = ServerTools("it", lambda: made, lambda step: made).find("it.work")
    assert found is not None
    return await found.call(STEP, {"x": 1}, None)


async def test_a_shed_call_is_retried_unchanged_after_its_delay() -> None:
    server = Server(
        refusal("shedding", "over_capacity", retryAfterMs=150), refusal("transient", "conflict", retryAfterMs=50), DONE
    )
    began = time.monotonic()
    assert await call(server) == Success({"n": 7})
    assert time.monotonic() - began >= 0.2
    assert server.calls == [("work", {"x": 1}, "10-11")] * 3


@pytest.mark.parametrize(
    "answer",
    [
        refusal("shedding", "store_unavailable", retryAfterMs=1),
        refusal("transient", "deadline_exceeded", retryAfterMs=1),
        refusal("permanent", "no", retryAfterMs=1),
    ],
    ids=["nobody knows how far it came", "it took too long", "for good"],
)
async def test_calls_that_may_have_had_an_effect_are_left_to_the_step_s_policy(answer: types.CallToolResult) -> None:
    server = Server(answer)
    failure = await call(server)
    assert isinstance(failure, Failure)
    assert failure.retryable == (failure.type != "no")
    assert len(server.calls) == 1


async def test_lasting_shedding_fails_the_step_with_a_retry_delay() -> None:
    server = Server(refusal("shedding", "draining", retryAfterMs=round(retrying.SECONDS * 1000)))
    failure = await call(server)
    assert failure == Failure("because", "draining", True, round(retrying.SECONDS * 1000))
    assert len(server.calls) == 1, "the retry delay is longer than the limit"


async def test_retries_to_one_server_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "PER_SECOND", 0.001)
    server = Server(refusal("shedding", "over_capacity", retryAfterMs=1))
    made: Any = server
    found = ServerTools("it", lambda: made, lambda step: made).find("it.work")
    assert found is not None
    for _ in range(30):
        assert isinstance(await found.call(STEP, {}, None), Failure)
    assert 30 < len(server.calls) <= 30 + 10 + 30 * retrying.PER_CALL + 1


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


async def test_the_coordinator_s_own_tools_are_retried_too(store: Store) -> None:
    failures = [ToolFailure("over_capacity", "too much", retry_after_ms=20), ToolFailure("conflict", "moved")]

    async def handle(call: Call, given: Nothing) -> Nothing:
        if failures:
            raise failures.pop(0)
        return given

    toolset = Toolset("mine", "Mine", "", (Tool("mine_do", "Does it.", Nothing, (Nothing,), handle),))
    found = OwnTools({"mine": toolset}, Actors(ActorAuthentication(), store)).find("mine_do")
    assert found is not None
    assert await found.call(STEP, {}, None) == Success({})
    assert not failures
    failures.append(ToolFailure("already_claimed", "busy", retry_after_ms=10))
    assert await found.call(STEP, {}, None) == Failure("busy", "already_claimed", True, 10)
