"""The sessions toolset as a caller sees it: JSON in; text, structured content and ``_meta`` out.

Every answer in JSON must be the same in text and structure and match the published schema; every failure must have a
sentence and a code.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec

from coordinator.definitions import Definitions
from coordinator.errors import CATALOGUE, ToolFailure
from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.workflows import Workflows
from coordinator.store import Store
from coordinator.toolsets.sessions.rules import tokens, trace
from coordinator.toolsets.sessions.store.sessions import SessionStore
from coordinator.toolsets.sessions.tools import toolset
from coordinator.toolsets.tool import Call, Reply, Services, Tool
from tests.support.schemas import must_keep_to

Json = dict[str, Any]


@dataclass
class Answer:
    """The answer to a call."""

    text: str
    meta: Json
    error: str = ""
    """The code of a failure."""
    retry_after_ms: int | None = None
    result: Json = field(default_factory=dict)
    """The answer's JSON, if any."""

    @property
    def token(self) -> str:
        """The new token."""
        token: str = self.meta["session_token"]
        return token

    @property
    def warnings(self) -> list[str]:
        warnings: list[str] = self.meta["validation"]["warnings"]
        return warnings

    def __getitem__(self, key: str) -> Any:
        return self.result[key]

    def __contains__(self, key: str) -> bool:
        return key in self.result


class Refused(AssertionError):
    """A call failed unexpectedly."""


def settings(least_seconds: int = 0, **more: Any) -> Settings:
    """Settings under which checkpoints may be answered at once."""
    return Settings(workflows=Workflows(min_checkpoint_response_seconds=least_seconds), **more)


class Sessions:
    """Calls the tools of sessions on one project.

    Args:
        definitions: the workflows.
    """

    def __init__(self, store: Store, project: str, definitions: Definitions, settings: Settings | None = None) -> None:
        self.store = store
        self.project = project
        self.room = Waits(FeedReader(store))
        """Of waiting reads."""
        services = Services(settings or globals()["settings"](), store, trust_self_reported, self.room)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in toolset(services, definitions).tools}

    async def attempt(self, name: str, **arguments: Any) -> Answer:
        """The answer, or the failure."""
        tool = self.tools[name]
        decoded = msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments)
        try:
            made = await tool.handler(Call(self.project), decoded)
        except ToolFailure as failure:
            assert tool.refusal is not None
            made = tool.refusal(failure)
        assert isinstance(made, Reply)
        return read(tool, made)

    async def __call__(self, name: str, **arguments: Any) -> Answer:
        """The answer of a call that must succeed."""
        answer = await self.attempt(name, **arguments)
        if answer.error:
            raise Refused(f"{name}: {answer.text}")
        return answer

    async def refusal(self, name: str, **arguments: Any) -> Answer:
        """The failure of a call that must fail."""
        answer = await self.attempt(name, **arguments)
        assert answer.error, f"{name} was not refused: {answer.text}"
        return answer

    async def presented(self, token: str, handle: str) -> str:
        """The second half of present_checkpoint for a token without a checkpoint: the outcome for this handle."""
        shown, meant = tokens.decode_unsigned(token), tokens.decode_unsigned(handle)
        noted = trace.entry("present_checkpoint", 0, shown.act, shown.aid)
        store = SessionStore(self.store, settings())
        return (await store.present(self.project, shown, noted, meant.checkpoint, str(meant.seq), "")).outcome

    async def start(self, workflow: str | None = None, agent: str = "orchestrator", **more: Any) -> str:
        """The token of a fresh session."""
        answer = await self("start_session", agent_id=agent, workflow_id=workflow, **more)
        token: str = answer["session_token"]
        return token

    async def at(self, workflow: str, activity: str) -> str:
        """The token of a fresh session at an activity."""
        return (await self("next_activity", session_token=await self.start(workflow), activity_id=activity)).token


def read(tool: Tool, made: Reply) -> Answer:
    """A reply as its caller sees it."""
    body = None if made.structured is None else json.loads(msgspec.json.encode(made.structured))
    text = made.text or json.dumps(body, indent=2, ensure_ascii=False)
    if tool.result and body is not None:
        must_keep_to(tool.result, body)
    if made.is_error:
        assert body is not None
        error = body["error"]
        assert error["message"] == text
        assert CATALOGUE[error["code"]].kind == error["kind"]
        return Answer(text, {}, error["code"], error.get("retryAfterMs"))
    if tool.result:
        assert body is not None
        assert (made.indented, made.text) == (True, "")
    else:
        assert body is None
    return Answer(text, dict(made.meta or {}), result=body or {})


def fresh_id() -> str:
    """An unused UUID."""
    return str(uuid.uuid4())
