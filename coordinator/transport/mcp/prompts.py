"""``prompts/list`` and ``prompts/get``: the instructions of ``coordinator.prompts`` for one endpoint and caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from coordinator.errors import that_exist
from coordinator.identity.callers.permissions import sufficient
from coordinator.prompts import PROMPTS, Prompt
from coordinator.prompts.texts import IDENTIFIED
from coordinator.toolsets.caller import Caller
from coordinator.transport.endpoints import Endpoint


class Prompts:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._names = {tool.name: name for name, tool in endpoint.tools.items() if tool.name != name}

    def offered(self, caller: Caller | None) -> list[Prompt]:
        """Those for which a caller may use the tools."""
        served = self._served(caller)
        return [prompt for prompt in PROMPTS.values() if not prompt.toolsets.isdisjoint(served)]

    def listing(self, caller: Caller | None) -> types.ListPromptsResult:
        served = self._served(caller)
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(name=one.name, description=one.description, required=one.required)
                        for one in prompt.taken(served)
                    ],
                )
                for prompt in self.offered(caller)
            ]
        )

    def check(self, caller: Caller | None, name: str, names: Iterable[str]) -> Prompt:
        """The prompt with this name.

        Raises:
            MCPError: there is none for this caller, or it does not take these arguments.
        """
        prompt = next((prompt for prompt in self.offered(caller) if prompt.name == name), None)
        if prompt is None:
            known = [prompt.name for prompt in self.offered(caller)]
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name[:200]}{that_exist(name, known)}")
        taken = [argument.name for argument in prompt.taken(self._served(caller))]
        for one in names:
            if one not in taken:
                raise MCPError(
                    types.INVALID_PARAMS,
                    f"{name} takes no argument '{one[:80]}'; it takes: {', '.join(taken) or 'none'}",
                )
        return prompt

    def checked(self, caller: Caller | None, name: str, arguments: Mapping[str, str]) -> tuple[Prompt, dict[str, str]]:
        """The prompt, and its arguments without blank ones.

        Raises:
            MCPError: as ``check``; or a value is malformed, or missing.
        """
        prompt = self.check(caller, name, arguments)
        values = {key: value.strip() for key, value in arguments.items() if value.strip()}
        for argument in prompt.taken(self._served(caller)):
            value = values.get(argument.name)
            if value is None and argument.required:
                raise MCPError(types.INVALID_PARAMS, f"{argument.name}: is required: {argument.allowed}")
            if value is not None and not argument.form.fullmatch(value):
                raise MCPError(types.INVALID_PARAMS, f"{argument.name}: must be {argument.allowed}")
        return prompt, values

    def get(self, caller: Caller | None, prompt: Prompt, values: Mapping[str, str]) -> types.GetPromptResult:
        holding = self._served(caller) | ({IDENTIFIED} if caller is not None else set())
        text = types.TextContent(type="text", text=prompt.text(holding, values, self._names))
        return types.GetPromptResult(
            description=prompt.description, messages=[types.PromptMessage(role="user", content=text)]
        )

    def _served(self, caller: Caller | None) -> frozenset[str]:
        """The toolsets whose tools a caller may use, also those that change something."""
        return frozenset(
            toolset.name
            for toolset in self._endpoint.toolsets
            if caller is None or not sufficient(toolset.name, False).isdisjoint(caller.permissions)
        )


def resolved(name: str, value: str, matches: Collection[str]) -> str:
    """The id that an argument means.

    Args:
        matches: ids that begin with it; for names of procedures, others, too.

    Raises:
        MCPError: there is none, or several.
    """
    if name != "item":
        if value not in matches:
            more = that_exist(value, matches) if matches else ", or none that you may use"
            raise MCPError(types.INVALID_PARAMS, f"{name}: there is no '{value[:80]}'{more}")
        return value
    if len(matches) != 1:
        why = "several items begin with" if matches else "there is no item"
        raise MCPError(types.INVALID_PARAMS, f"{name}: {why} '{value[:80]}'")
    return next(iter(matches))
