"""The catalogue: everything that can be found and started, and the index to find it with.

A catalogue never changes. It is made from the config section and the known tools of downstream servers; after a
reload, or when a server's tools have changed, a new one replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.gateway.executor import Executor
from coordinator.settings.sections.gateway.model import PROXY, FieldName, Gateway, Import, State, Workflow
from coordinator.toolsets.gateway.rules.bundle import Packed, packed
from coordinator.toolsets.gateway.rules.resolve import OWN, READY, Resolved, all_connections, resolved, session_of
from coordinator.toolsets.gateway.rules.schemas.inputs import MAX_DEPTH, too_deep
from coordinator.toolsets.gateway.rules.search import Index, SearchEntry

WORKFLOW, CAPABILITY, CONNECTION = "workflow", "capability", "connection"
_MAX_SHOWN = 100
"""The most characters of a bad name that a message quotes."""


class ImportedTool(Struct, frozen=True):
    """A tool of a downstream server, as it was last listed."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None


class LeftOut(Struct, frozen=True):
    """A tool of a downstream server that cannot be offered."""

    tool: str
    """Its name, perhaps cut."""
    reason: str
    """Why, as a part of a sentence."""


class ServerTools(Struct, frozen=True):
    """The tools of a downstream server, as last listed."""

    tools: tuple[ImportedTool, ...] = ()
    available: bool = True
    """Whether it answered the last request."""
    reason: str = ""
    """Why it did not answer."""
    left_out: tuple[LeftOut, ...] = ()
    """Listed, but of no use."""
    more_left_out: int = 0
    """How many more of these there are."""


Servers = Mapping[str, ServerTools]
"""By connection. A missing server was not asked yet."""


class CatalogueItem(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    title: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[Any, ...] = ()
    available: bool = True
    schema: Mapping[str, Any] | None = None


class Catalogue:
    """Everything that agents can find.

    Args:
        gateway: None: nothing is configured.
        connections: those at the top of the settings.
        servers: the known tools of downstream servers.
    """

    def __init__(
        self,
        gateway: Gateway | None,
        connections: Mapping[str, Connection] | None = None,
        servers: Servers | None = None,
    ) -> None:
        self._gateway = gateway or Gateway(version="1.0.0")
        settled = resolved(self._gateway)
        self.workflows: Mapping[str, Workflow] = settled.workflows
        """Definitions by id."""
        self.capabilities: dict[str, Resolved] = {**settled.capabilities, **settled.exposed}
        """Declared, exposed and imported capabilities by id."""
        self.left_out: dict[str, list[LeftOut]] = {}
        """Tools that are to be imported and cannot be offered, by connection."""
        self.imported: dict[str, Resolved] = {}
        self._servers = servers or {}
        self._packed: dict[str, Packed] = {}
        self.items: dict[str, CatalogueItem] = {}
        """All items by id, in the order in which gateway.home shows them."""
        self._list(settled.capabilities, settled.exposed, self._servers, all_connections(gateway, connections))

    @cached_property
    def index(self) -> Index:
        """The search index; built on first use."""
        return Index(map(self._entry, self.items.values()))

    def prepare(self) -> None:
        """Builds the index now, so that no search waits for it."""
        len(self.index)

    @property
    def gateway(self) -> Gateway:
        """The section of the settings it was built from."""
        return self._gateway

    def more_left_out(self, connection: str) -> int:
        """How many tools of a server cannot be offered, beside those that ``left_out`` names."""
        known = self._servers.get(connection)
        return known.more_left_out if known is not None else 0

    def definition(self, id: str) -> Packed | None:
        """The bundle of a workflow, for new instances; None if there is no such workflow."""
        if id not in self.workflows:
            return None
        return self._bundle(id, id, self.workflows[id])

    def session(self, capability: str) -> Packed | None:
        """The bundle of a session with a capability; None if there is no such capability."""
        exposed = self.capabilities.get(capability)
        if exposed is None:
            return None
        return self._bundle(f"{PROXY} {capability}", PROXY, session_of(exposed))

    def sessions(self) -> Workflow:
        """``proxy_default`` as a whole, for explanations."""
        transitions = {name: session_of(one).states[READY].transitions[name] for name, one in self.capabilities.items()}
        return Workflow(
            title="A session with a capability",
            description="A session with one capability, which can be called any number of times.",
            initial_state=READY,
            states={READY: State(transitions=transitions)},
        )

    def _bundle(self, key: str, root: str, workflow: Workflow) -> Packed:
        made = self._packed.get(key)
        if made is None:
            made = self._packed[key] = packed(root, workflow, self.workflows, self._gateway.limits)
        return made

    def _list(
        self,
        declared: Mapping[str, Resolved],
        exposed: Mapping[str, Resolved],
        servers: Servers,
        connections: Mapping[str, Connection],
    ) -> None:
        include = self._gateway.discovery.include
        if "workflows" in include:
            for name, workflow in self.workflows.items():
                self.items[name] = CatalogueItem(
                    id=name,
                    kind=WORKFLOW,
                    title=workflow.title or name,
                    description=workflow.description,
                    tags=workflow.tags,
                    examples=workflow.examples,
                    schema=workflow.input_schema,
                )
        if "capabilities" in include:
            for capability in declared.values():
                self._add(capability)
        if "proxy" in include:
            for capability in exposed.values():
                self._add(capability)
        for stated in self._gateway.proxy.imports:
            self._import(stated, servers.get(stated.connection), listed="proxy" in include)
        if "connections" in include:
            for name, connection in connections.items():
                known = servers.get(name)
                self._add_connection(name, f"A connection of kind {connection.kind}.", known is None or known.available)

    def _import(self, stated: Import, known: ServerTools | None, *, listed: bool) -> None:
        """Adds the tools of a server; if it does not answer now, the last known ones."""
        if known is None:
            return
        if not known.tools and not known.available and listed:
            self._add_connection(stated.connection, f"Its tools are not known: {known.reason}.", False)
        left_out = self.left_out.setdefault(stated.connection, [])
        left_out += [tool for tool in known.left_out if _wanted(stated, tool.tool) and tool not in left_out]
        for tool in known.tools:
            if not _wanted(stated, tool.name):
                continue
            name = f"{stated.prefix}.{tool.name}" if stated.prefix else tool.name
            if name in self.capabilities or name in self.workflows or name == PROXY:
                reason = f"something else is called {name!r}; give the import a prefix, or exclude the tool"
                left_out.append(LeftOut(tool.name, reason))
                continue
            if unfit := _unfit(name, tool):
                left_out.append(LeftOut(tool.name[:_MAX_SHOWN], unfit))
                continue
            capability = Resolved(
                id=name,
                title=tool.title or tool.name,
                description=tool.description,
                tags=stated.tags,
                input_schema=tool.input_schema,
                executor=Executor(kind="mcp", connection=stated.connection, tool=tool.name),
                reliability=stated.reliability,
            )
            self.capabilities[name] = self.imported[name] = capability
            if listed:
                self._add(capability, known.available)

    def _add(self, capability: Resolved, available: bool = True) -> None:
        self.items[capability.id] = CatalogueItem(
            id=capability.id,
            kind=CAPABILITY,
            title=capability.title or capability.id,
            description=capability.description,
            tags=capability.tags,
            examples=capability.examples,
            available=available,
            schema=capability.schema,
        )

    def _add_connection(self, name: str, description: str, available: bool) -> None:
        listed = CatalogueItem(
            id=f"connection:{name}", kind=CONNECTION, title=name, description=description, tags=(), available=available
        )
        self.items[listed.id] = listed

    def _entry(self, item: CatalogueItem) -> SearchEntry:
        aliases: Sequence[str] = ()
        text = item.id
        if item.kind == WORKFLOW:
            workflow = self.workflows[item.id]
            aliases, text = workflow.aliases, " ".join(_texts(workflow))
        elif item.kind == CAPABILITY:
            aliases = self.capabilities[item.id].aliases
        return SearchEntry(item.id, item.kind, item.title, item.tags, aliases, item.description, text)


def _unfit(name: str, tool: ImportedTool) -> str:
    """Why a tool cannot be offered; empty if it can."""
    try:
        msgspec.convert(name, FieldName)  # it becomes the name of a transition
    except msgspec.ValidationError:
        return "its name is not one of 1 to 128 characters without blanks, '$' and brackets"
    if not name.isprintable() or not tool.name:
        return "its name is not printable"
    if name.startswith(OWN):
        return "its name looks like one of the gateway's own tools; give the import a prefix"
    if too_deep(tool.input_schema):
        return f"inputSchema is nested more than {MAX_DEPTH} deep"
    return ""


def _wanted(stated: Import, tool: str) -> bool:
    return (not stated.include or tool in stated.include) and tool not in stated.exclude


def _texts(workflow: Workflow) -> Iterator[str]:
    """The texts in which search looks for words, besides the workflow's name."""
    for name, state in workflow.states.items():
        yield from (name, state.description, state.goal, state.guidance)
        for key, transition in state.transitions.items():
            yield from (key, transition.title, transition.description)
