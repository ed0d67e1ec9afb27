"""The names of tools that steps may call, as far as they are known without asking downstream servers.

Front-ends check names with this when a flow is created; workers resolve them. Both read the same settings and the same
installed packages. The tools of downstream servers come and go, so for these only the connection is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from coordinator.service import Service
from coordinator.settings import Settings

ENTRY_POINTS = "fleet.step_tools"
"""The group in which installed packages name their callables."""

_CLOSE = 0.7
"""How similar a name must be to be suggested, from 0 to 1."""
_LONGEST = 100
"""Characters of a name that messages show."""
_MOST_LISTED = 12
"""Names of each kind that a message lists."""

DEMO_TOOLS = (
    "get_greeting",
    "get_counter",
    "is_admin",
    "echo",
    "sleep",
    "fail",
    "knowledge_add",
    "knowledge_list",
    "knowledge_search",
    "knowledge_search_text",
)


@cache
def installed() -> Mapping[str, str]:
    """Callables of installed packages: name -> ``module:function``."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def callables(settings: Settings) -> Mapping[str, str]:
    """All Python callables by name; the settings win over installed packages."""
    return {**installed(), **(settings.flows.tools or {})}


def owners(toolsets: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Every name for one of the coordinator's own tools -> the toolsets that it can mean.

    ``claim_item`` and ``items.claim_item`` mean the same tool. If several toolsets have a tool of one name, only the
    longer form is unambiguous.
    """
    owners: dict[str, list[str]] = {}
    for toolset, tools in toolsets.items():
        for tool in tools:
            owners.setdefault(tool, []).append(toolset)
            owners[f"{toolset}.{tool}"] = [toolset]
    return owners


def ambiguity(name: str, toolsets: Sequence[str]) -> str:
    """What is wrong with a name of the coordinator's own tools that these toolsets have; empty: it has one meaning."""
    if len(toolsets) == 1:
        return ""
    return f"several toolsets have a tool {name!r}; say {' or '.join(f'{toolset}.{name}' for toolset in toolsets)}"


class StepNames(Service):
    """Checks the names of tools."""

    def __init__(self, settings: Settings) -> None:
        self._plain = {*callables(settings), *(DEMO_TOOLS if settings.flows.demo_tools else ())}
        self._own: dict[str, list[str]] = {}
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._connections = {name: connection.kind for name, connection in (settings.connections or {}).items()}
        self._of_gateway = frozenset(settings.gateway.connections if settings.gateway is not None else ())

    def declare(self, toolsets: Mapping[str, Iterable[str]]) -> None:
        """Says which toolsets there are, with the names of their tools."""
        self._own = owners(toolsets)

    def problem(self, name: str) -> str:
        """What is wrong with a name, as a sentence; empty: nothing that is known here."""
        own = self._own.get(name)
        if own is not None:
            return ambiguity(name, own)
        if name in self._plain:
            return ""
        connection, dot, _ = name.partition(".")
        kind = self._connections.get(connection) if dot else None
        if kind == "mcp":
            return ""
        if kind is not None:
            return f"the connection {connection!r} is of kind {kind}; steps can call tools of kind mcp only"
        if dot and connection in self._of_gateway:
            problem = f"unknown tool {name[:_LONGEST]!r}: {connection!r} is a connection of the gateway"
            return f"{problem}, whose guards protect it; steps can call tools of connections at the top of the settings"
        # Of the two names of each own tool, those of the form that was used.
        alike = [*self._plain, *(name for name in self._own if ("." in name) is bool(dot))]
        close = get_close_matches(name[:_LONGEST], alike, n=3, cutoff=_CLOSE)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are: {self._summary}"
        return f"unknown tool {name[:_LONGEST]!r}; {hint}"

    @property
    def _summary(self) -> str:
        """The known names, as many as fit into a sentence."""
        servers = [f"{name}.<tool>" for name, kind in self._connections.items() if kind == "mcp"]
        own = [name for name in self._own if "." not in name]
        kinds = (sorted(self._plain), sorted(servers), own)
        return "; ".join(_listed(names) for names in kinds if names) or "none"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(name[:_LONGEST] for name in names[:_MOST_LISTED]) + more
