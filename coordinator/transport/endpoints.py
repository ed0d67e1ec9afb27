"""Which tools answer at which path.

``/mcp/{toolset}`` serves one toolset, ``/mcp`` the configured default, ``/mcp/a,b`` a combination. Below
``/p/{project}`` the same paths serve another project. An endpoint is one combination of toolsets, whatever the
project and the order in which the toolsets are named. So n toolsets have at most 2^n - 1 endpoints; each is made when
it is first requested.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from coordinator.errors import that_exist
from coordinator.identity.callers.permissions import least, sufficient
from coordinator.store.keys import DEFAULT_PROJECT, PROJECT, PROJECT_RULE
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.schema import Outputs, describe
from coordinator.toolsets.tool import Resource, Tool, Toolset
from coordinator.transport.http.replies import Refusal

NameStyle = Literal["dotted", "underscore"]

_PATH = re.compile(r"(?:/p/(?P<project>[^/]*))?/mcp(?:/(?P<toolsets>[^/]*))?/?\Z")

_PREFIXES = {"gateway": "gw"}
"""Toolset -> the prefix of its dotted names in the underscore style, if that is not the toolset's name."""

_REMEMBERED_PATHS = 4_096


class EndpointError(Exception):
    """The configured toolsets cannot be served; the message says why."""


class Access(NamedTuple):
    """The permissions that identified callers need for a tool."""

    sufficient: frozenset[str]
    """Any one of these permissions is enough."""
    least: str
    """The narrowest of them that names the toolset; the scope that challenges name."""
    for_claims: bool = False
    """Whether bearers of tokens for claims may use it."""

    def permits(self, caller: Caller) -> bool:
        """Whether the caller may use the tool."""
        if caller.claim is not None:
            return self.for_claims
        return not self.sufficient.isdisjoint(caller.permissions)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The tools of one combination of toolsets.

    Args:
        name: the toolsets' names, comma-separated, in the order in which they are declared.
        tools: published name -> tool.
    """

    name: str
    toolsets: tuple[Toolset, ...]
    tools: Mapping[str, Tool]
    listing: tuple[dict[str, Any], ...] = field(repr=False)
    """The tools as ``tools/list`` shows them."""
    input_schemas: Mapping[str, dict[str, Any]] = field(repr=False)
    callers_listing: tuple[dict[str, Any], ...] = field(repr=False)
    """The listing for identified callers."""
    access: Mapping[str, Access] = field(repr=False)
    """By published name."""
    answering: Mapping[str, Access] = field(repr=False)
    """Of the tools that may ask something: what their callers need to act on the answer."""
    entry: frozenset[str] = field(repr=False)
    """Permissions that permit at least one of the tools."""

    def admits(self, caller: Caller) -> bool:
        """Whether a caller may use any of the tools."""
        if caller.claim is not None:
            return any(access.for_claims for access in self.access.values())
        return not self.entry.isdisjoint(caller.permissions)

    def resources(self, caller: Caller | None) -> dict[str, Resource]:
        """The resources that a caller may read, by URI: those of each toolset whose reading tools they may use."""
        return {
            resource.uri: resource
            for toolset in self.toolsets
            if caller is None or self.reads(caller, toolset.name)
            for resource in toolset.resources
        }

    def reads(self, caller: Caller, toolset: str) -> bool:
        """Whether a caller may use the reading tools of a toolset."""
        return not sufficient(toolset, True).isdisjoint(caller.permissions)

    @property
    def changes(self) -> bool:
        """Whether what it offers may change while the process runs."""
        return any(toolset.offers is not None for toolset in self.toolsets)

    def offered(self) -> tuple[object, ...]:
        """What it offers now: not equal to what it was before, if that has changed."""
        return tuple(toolset.offers() for toolset in self.toolsets if toolset.offers is not None)

    @property
    def instructions(self) -> str:
        """The MCP ``instructions`` of these tools."""
        served = {toolset.name for toolset in self.toolsets}
        texts = (toolset.instructions for toolset in self.toolsets if toolset.part_of not in served)
        return "\n\n".join(filter(None, texts))

    @property
    def title(self) -> str:
        return ", ".join(toolset.title for toolset in self.toolsets)


class Target(NamedTuple):
    """What a path addresses."""

    endpoint: Endpoint
    project: str


class Endpoints:
    """All MCP endpoints of a process.

    Args:
        toolsets: by name, in the order in which combinations list their tools.
        default: the toolsets served at ``/mcp``.
        outputs: how much of the output schemas the lists contain.
        projects: the allowed projects; empty: any.

    Raises:
        EndpointError: the default names an unknown toolset, or two that share a tool name.
        ContractError: a contract struct cannot be published.
    """

    def __init__(
        self,
        toolsets: Mapping[str, Toolset],
        default: Sequence[str],
        style: NameStyle = "dotted",
        outputs: Outputs = "lean",
        projects: Sequence[str] = (),
    ) -> None:
        self._projects = frozenset(projects)
        self._toolsets = dict(toolsets)
        self._style = style
        self._outputs = outputs
        self._made: dict[str, Endpoint | Refusal] = {}
        self._paths: dict[str, Target | Refusal] = {}
        self._default = list(default)
        for name in self._toolsets:
            # Every contract is published at start, so that a defect in one stops the start and not a call.
            self._endpoint([name])
        made = self._endpoint(self._default)
        if isinstance(made, Refusal):
            raise EndpointError(f"toolsets: {made.message}")
        self.default = made
        """What ``/mcp`` serves, in any project."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._toolsets)

    def open_only(self, projects: Sequence[str]) -> None:
        """Replaces the list of allowed projects; empty: any."""
        self._projects = frozenset(projects)
        self._paths.clear()

    @property
    def projects(self) -> frozenset[str]:
        """The allowed projects; empty: any."""
        return self._projects

    def others(self, path: str, caller: Caller | None) -> str:
        """The existing projects, for the end of an error message; empty: the project was not the problem."""
        match = _PATH.match(path)
        project = (match["project"] or DEFAULT_PROJECT) if match is not None else ""
        if not self._closed(project) or not PROJECT.fullmatch(project):
            return ""
        seen = self._projects if caller is None or caller.sees is None else self._projects & caller.sees
        return that_exist(project, sorted(seen))

    def project(self, name: str) -> Refusal | None:
        """Why there is no such project; None: there is, or may be."""
        if not PROJECT.fullmatch(name):
            return Refusal(400, f"no project can have the name {_quoted(name)}; allowed: {PROJECT_RULE}")
        if self._closed(name):
            return Refusal(404, f"there is no project '{name}'")
        return None

    def _closed(self, project: str) -> bool:
        return bool(self._projects) and project not in self._projects

    def resolve(self, path: str) -> Target | Refusal | None:
        """What ``path`` (percent-decoded, without the query) addresses; None: it is not an MCP path."""
        known = self._paths.get(path)
        if known is not None:
            return known
        match = _PATH.match(path)
        if match is None:
            return None
        target = self._resolve(match["project"], match["toolsets"])
        if isinstance(target, Target):
            if len(self._paths) >= _REMEMBERED_PATHS:
                self._paths.clear()
            self._paths[path] = target
        return target

    def _resolve(self, project: str | None, toolsets: str | None) -> Target | Refusal:
        if project is None:
            project = DEFAULT_PROJECT
        if (refusal := self.project(project)) is not None:
            return refusal
        endpoint = self._endpoint(toolsets.split(",") if toolsets else self._default)
        return endpoint if isinstance(endpoint, Refusal) else Target(endpoint, project)

    def _endpoint(self, names: Sequence[str]) -> Endpoint | Refusal:
        for name in names:
            if name not in self._toolsets:
                known = ", ".join(self._toolsets) or "none"
                return Refusal(404, f"there is no toolset {_quoted(name)}; there are: {known}")
        if len(set(names)) != len(names):
            return Refusal(400, "a toolset is named twice")
        ordered = [name for name in self._toolsets if name in names]
        key = ",".join(ordered)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(key, [self._toolsets[name] for name in ordered])
        return made

    def _make(self, key: str, toolsets: list[Toolset]) -> Endpoint | Refusal:
        owners: dict[str, str] = {}
        tools: dict[str, Tool] = {}
        access: dict[str, Access] = {}
        answering: dict[str, Access] = {}
        shared: list[str] = []
        for toolset in toolsets:
            for tool in toolset.tools:
                name = published_name(toolset.name, tool.name, self._style)
                if name in tools:
                    shared.append(f"{name} ({owners[name]} and {toolset.name})")
                owners[name] = toolset.name
                tools[name] = tool
                needed = sufficient(toolset.name, tool.read_only), least(toolset.name, tool.read_only)
                access[name] = Access(*needed, tool.for_claims is not None)
                if tool.asks:
                    answering[name] = Access(sufficient(toolset.name, False), least(toolset.name, False))
        if shared:
            return Refusal(
                400,
                f"{' and '.join(toolset.name for toolset in toolsets)} cannot be served together because they share "
                f"tool names: {', '.join(shared)}; use one endpoint for each: "
                + ", ".join(f"/mcp/{toolset.name}" for toolset in toolsets),
            )
        outputs = self._outputs
        listing = tuple(describe(tool, name, outputs=outputs) for name, tool in tools.items())
        return Endpoint(
            key,
            tuple(toolsets),
            tools,
            listing,
            {tool["name"]: tool["inputSchema"] for tool in listing},
            tuple(describe(tool, name, identified=True, outputs=outputs) for name, tool in tools.items()),
            access,
            answering,
            frozenset().union(*(scopes.sufficient for scopes in access.values())),
        )


def published_name(toolset: str, tool: str, style: NameStyle) -> str:
    """A tool's name on the wire.

    In the underscore style a dotted name gets its toolset's prefix, so that it can never
    become another toolset's plain name: gateway's ``workflow.get`` is ``gw_workflow_get``
    and not flows' ``workflow_get``.
    """
    if style == "dotted" or "." not in tool:
        return tool
    return f"{_PREFIXES.get(toolset, toolset)}_{tool.replace('.', '_')}"


def _quoted(text: str) -> str:
    return f"'{text[:80]}'"
