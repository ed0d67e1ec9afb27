"""The navigator toolset as a caller sees it: tools by name, JSON in, JSON or text out."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec

from coordinator.definitions import Definitions, shared_definitions
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.signing_keys import SigningKeys
from coordinator.toolsets.navigator.rules import actions, token
from coordinator.toolsets.navigator.rules.state import State
from coordinator.toolsets.navigator.tools import toolset
from coordinator.toolsets.schema import input_schema
from coordinator.toolsets.tool import Call, Reply, Services
from tests.support.schemas import must_keep_to

Json = dict[str, Any]


@cache
def _given(arguments: type[msgspec.Struct]) -> Any:
    return jsonschema.Draft202012Validator(input_schema(arguments))


class Client:
    """Calls the tools of the navigator on one project.

    Each answer that has an output schema must keep to it.
    """

    def __init__(self, store: Store, project: str, definitions: Definitions | None = None) -> None:
        self.store = store
        self.project = project
        self.definitions = definitions or shared_definitions([])
        self.toolset = toolset(Services(Settings(), store, trust_self_reported), self.definitions)
        self.tools = {tool.name: tool for tool in self.toolset.tools}
        self.secrets = SigningKeys(store)

    async def __call__(self, name: str, **arguments: Any) -> Any:
        """The answer: structured content, else the text.

        Raises:
            ToolFailure: the caller's error.
        """
        tool = self.tools[name]
        _given(tool.arguments).validate(arguments)
        return await self.unchecked(name, **arguments)

    async def unchecked(self, name: str, **arguments: Any) -> Any:
        """The same for arguments that violate the input schema."""
        tool = self.tools[name]
        decoded = msgspec.convert(arguments, tool.arguments)
        answer = await tool.handler(Call(self.project), decoded)
        if isinstance(answer, Reply):
            assert not tool.result
            assert not answer.is_error
            return answer.text or msgspec.json.decode(msgspec.json.encode(answer.structured))
        data = msgspec.json.decode(msgspec.json.encode(answer))
        must_keep_to(tool.result, data)
        return data

    async def start(self, workflow_id: str, **variables: Any) -> Json:
        """nav_start."""
        more = {"initial_variables": variables} if variables else {}
        answer: Json = await self("nav_start", workflow_id=workflow_id, **more)
        return answer

    async def do(self, situation: Json, action: str, **arguments: Any) -> Json:
        """nav_action on the state of an answer."""
        answer: Json = await self("nav_action", state=situation["state"], action=action, **arguments)
        return answer

    async def must(self, situation: Json, action: str, **arguments: Any) -> Json:
        """The same for an action that must succeed."""
        answer = await self.do(situation, action, **arguments)
        assert answer["success"], answer["message"]
        return answer

    async def refused(self, situation: Json, action: str, **arguments: Any) -> str:
        """The code of an action that must fail and leave the state unchanged."""
        answer = await self.do(situation, action, **arguments)
        assert not answer["success"], answer["message"]
        assert answer["state"] == situation["state"]
        assert answer["message"] == f"Action failed: {answer['error']['message']}"
        same = ("position", "availableActions", "checkpoint")
        assert [answer[key] for key in same] == [situation[key] for key in same]
        return str(answer["error"]["code"])

    def state(self, situation: Json) -> State:
        """The content of a token, variables with defaults included; opaque to agents."""
        state = token.unpacked(token.opened(situation["state"]).packed)
        library = self.definitions.current
        return actions.walk(library.workflows[state.workflow_id], state, "", library.workflows).state

    async def signed(self, member: bytes, project: str = "") -> str:
        """A token over any bytes, with a valid signature."""
        signature = await self.secrets.sign(token.PURPOSE, member, project or self.project)
        return token.token(member, signature.mac)


def offered(situation: Json, kind: str = "") -> list[str]:
    """The actions that an answer offers, as ``complete_step write-test``."""
    actions = situation["availableActions"]
    found = []
    for group in (kind,) if kind else ("required", "optional"):
        for one in actions[group]:
            names = [one[key] for key in ("step", "checkpoint", "activity", "loop") if key in one]
            found.append(" ".join([one["action"], *names]))
    return found
