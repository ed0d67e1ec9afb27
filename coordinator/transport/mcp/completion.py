"""``completion/complete``: ids of what there is now, for arguments of prompts and templates of resources.

A completion reads the store once at most. It is admitted, timed and counted like a call of a tool of the lowest class.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from coordinator.errors import that_exist
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import COMPLETIONS_MOST, Call, Complete, Completed, Criticality, Tool, document_uri
from coordinator.transport.calls import Calls
from coordinator.transport.endpoints import Endpoint
from coordinator.transport.mcp.prompts import Prompts

_METHOD = "completion/complete"
_NAMED = {"items": "item", "flows": "flow"}
"""First part of the path of a document -> what its id names; those of the others cannot be completed."""
_VARIABLES = ("project", "id")


class _Asked(msgspec.Struct):
    complete: Complete
    typed: str


async def _run(call: Call, asking: _Asked) -> Any:
    completed = await asking.complete(call, asking.typed)
    return _Found(completed.values, completed.more)


class _Found(msgspec.Struct):
    values: list[str]
    more: bool


_TOOL = Tool(_METHOD, "", _Asked, (_Found,), _run, read_only=True, stateless=True, criticality=Criticality.SHEDDABLE)
"""Completions are run like calls of this tool, which nobody sees."""


class Completions:
    """The completions of one endpoint.

    Args:
        transport: as ``Hooks.request`` takes it.
    """

    def __init__(self, endpoint: Endpoint, calls: Calls, prompts: Prompts, transport: str) -> None:
        self._endpoint = endpoint
        self._calls = calls
        self._prompts = prompts
        self._transport = transport

    async def answer(self, call: Call, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Answers a request.

        Raises:
            MCPError: there is no such prompt, template or argument, or the store does not answer.
        """
        ref, name = params.ref, params.argument.name
        project = call.project
        if isinstance(ref, types.PromptReference):
            self._prompts.check(call.caller, ref.name, [name])
        else:
            name = self._variable(call.caller, ref.uri, name)
            if params.context is not None:
                project = (params.context.arguments or {}).get("project", project)
        # What is in other projects is not for this endpoint to tell.
        completed = await self.find(call, name, params.argument.value) if project == call.project else Completed([])
        completion = types.Completion(values=completed.values, has_more=completed.more)
        if not completed.more:
            completion.total = len(completed.values)
        return types.CompleteResult(completion=completion)

    def templates(self, caller: Caller | None) -> dict[str, str]:
        """The templates of the documents that a caller may read, and what their ids name ('': nothing known)."""
        return {
            document_uri("{project}", document.path): _NAMED.get(document.path.partition("/")[0], "")
            for toolset in self._endpoint.toolsets
            if caller is None or self._endpoint.reads(caller, toolset.name)
            for document in toolset.documents
            if "{id}" in document.path
        }

    async def find(self, call: Call, name: str, typed: str) -> Completed:
        """What the caller may read and begins with a text.

        Args:
            name: what it names: project, item, flow or procedure.

        Raises:
            MCPError: the call was shed, or the store does not answer.
        """
        complete = self._complete(call.caller, name)
        if complete is None:
            return Completed([])
        done = await self._calls.run(_TOOL, call, _Asked(complete, typed), self._transport)
        if done.failed:
            error = msgspec.json.decode(done.body)["error"]
            raise MCPError(types.INTERNAL_ERROR, f"{error['code']}: {error['message']}", error)
        reply = msgspec.json.decode(done.body, type=_Found)
        return Completed(reply.values, reply.more)

    def _variable(self, caller: Caller | None, template: str, variable: str) -> str:
        """What a variable of a template names.

        Raises:
            MCPError: there is no such template or variable.
        """
        known = self.templates(caller)
        if template not in known:
            raise MCPError(types.INVALID_PARAMS, f"Unknown template: {template[:200]}; there are: {', '.join(known)}")
        if variable not in _VARIABLES:
            raise MCPError(types.INVALID_PARAMS, f"Unknown variable: {variable[:80]}{that_exist(variable, _VARIABLES)}")
        return variable if variable == "project" else known[template]

    def _complete(self, caller: Caller | None, name: str) -> Complete | None:
        if name == "project":
            return self._projects
        for toolset in self._endpoint.toolsets:
            if name in toolset.completes and (caller is None or self._endpoint.reads(caller, toolset.name)):
                return toolset.completes[name]
        return None

    async def _projects(self, call: Call, typed: str) -> Completed:
        """Projects by name, that of the endpoint first."""
        known = self._calls.hints
        completed = Completed([]) if known is None else await known.complete(typed, call.caller)
        own = [call.project] if call.project.startswith(typed) else []
        names = list(dict.fromkeys((*own, *completed.values)))
        return Completed(names[:COMPLETIONS_MOST], completed.more or len(names) > COMPLETIONS_MOST)
