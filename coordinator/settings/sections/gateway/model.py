"""The section ``gateway``: the capabilities and workflows that agents find behind the seven tools.

``coordinator.toolsets.gateway`` applies it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from coordinator.settings.problems import Faults
from coordinator.settings.sections.connections import ConnectionName, Connections
from coordinator.settings.sections.gateway.executor import Executor, Guard, ItemName, Milliseconds, Part, Reliability
from coordinator.settings.setting import setting

PROXY = "proxy_default"
"""The definition of sessions with a single capability. No workflow can have this name."""

Texts = Annotated[tuple[str, ...], setting(max_length=100)]
Schema = dict[str, Any]
LinkFilter = Literal["legal", "byGuards", "all"]
"""Which transitions are linked: all; those that no guard refuses now, whatever the arguments (``legal``); or only those
whose guards hold without arguments, for those who may take them (``byGuards``)."""
FieldName = Annotated[
    str,
    setting(pattern=r"^[^\s\[\]$]{1,128}\Z", allowed="a name of 1 to 128 characters without blanks, '$' and brackets"),
]
ToolName = Annotated[str, setting(min_length=1, max_length=200)]


class Described(Part, frozen=True, kw_only=True):
    """How agents find something, and the input that it takes."""

    title: str = ""
    description: str = ""
    tags: Texts = ()
    aliases: Texts = ()
    examples: tuple[Any, ...] = ()
    input_schema: Schema | None = None


class Offered(Described, frozen=True, kw_only=True):
    """What a call executes, how reliably, and who may call."""

    guards: tuple[Guard, ...] = ()
    reliability: Reliability | None = None
    executor: Executor | None = None


class Capability(Offered, frozen=True, kw_only=True):
    """One entry of ``capabilities``.

    Raises:
        Faults: neither ``executor`` nor ``wraps`` says what it does.
    """

    wraps: ItemName | None = None

    def __post_init__(self) -> None:
        if self.executor is None and self.wraps is None:
            raise Faults([((), "needs executor or wraps")])


class Exposure(Offered, frozen=True, kw_only=True):
    """One entry of ``proxy.expose``: a capability of its own, or a declared one under another name.

    Raises:
        Faults: it is neither, or both.
    """

    name: ItemName | None = None
    capability: ItemName | None = None
    as_: ItemName | None = None

    def __post_init__(self) -> None:
        inline = self.name is not None
        if inline == (self.capability is not None):
            raise Faults([((), "needs either name (with executor) or capability (with as, if it is to be renamed)")])
        if inline and self.executor is None:
            raise Faults([((), "an exposure with name needs executor")])
        if inline and self.as_ is not None:
            raise Faults([(("as",), "goes with capability; an exposure with name has its name already")])
        for field in () if inline else ("title", "examples", "input_schema", "executor"):
            if getattr(self, field) not in ("", (), None):
                raise Faults([((), f"an exposure of a capability takes no {field}: the capability has it")])

    @property
    def id(self) -> str:
        """Its name in the catalogue."""
        return self.name or self.as_ or self.capability or ""


class Import(Part, frozen=True, kw_only=True):
    """One entry of ``proxy.import``: the tools of a downstream MCP server.

    Raises:
        Faults: the tools would have a fallback.
    """

    connection: ConnectionName
    prefix: ItemName | None = None
    include: tuple[ToolName, ...] = ()
    exclude: tuple[ToolName, ...] = ()
    tags: Texts = ()
    reliability: Reliability | None = None

    def __post_init__(self) -> None:
        if self.reliability is not None and self.reliability.fallback is not None:
            why = "imported tools take none; expose a capability with it in their place"
            raise Faults([(("reliability", "fallback"), why)])


class Proxy(Part, frozen=True, kw_only=True, rename={"imports": "import"}):
    expose: tuple[Exposure, ...] = ()
    imports: tuple[Import, ...] = ()


class Branch(Part, frozen=True, kw_only=True):
    """An alternative target of a transition, if the guard holds after the executor has succeeded."""

    when: Guard
    target: FieldName


class OnEnter(Part, frozen=True, kw_only=True):
    """What is executed whenever the state is entered."""

    executor: Executor | None = None
    output: dict[str, Any] = {}
    reliability: Reliability | None = None


class Transition(Part, frozen=True, kw_only=True):
    """A way out of a state."""

    target: FieldName
    title: str = ""
    description: str = ""
    actor: Literal["agent", "human", "system", "deterministic"] = "agent"
    input_schema: Schema | None = None
    guards: tuple[Guard, ...] = ()
    executor: Executor | None = None
    output: dict[str, Any] = {}
    reliability: Reliability | None = None
    prefill: dict[str, Any] = {}
    branches: tuple[Branch, ...] = ()
    evidence: Annotated[tuple[str, ...], setting(max_length=10, one=True)] = ()
    """The kinds of evidence that it adds, besides its executor's."""


class State(Part, frozen=True, kw_only=True):
    description: str = ""
    goal: str = ""
    guidance: str = ""
    terminal: bool = False
    outcome: Literal["success", "failure"] | None = None
    """The outcome of a workflow that ends here; None: success."""
    on_enter: OnEnter | None = None
    link_filter: LinkFilter | None = None
    transitions: dict[FieldName, Transition] = {}

    def __post_init__(self) -> None:
        if self.terminal and self.transitions:
            raise Faults([(("transitions",), "a terminal state has none")])
        if self.outcome is not None and self.transitions:
            raise Faults([(("outcome",), "is for states that workflows end in")])


class OnTimeout(Part, frozen=True, kw_only=True):
    """The state that a workflow goes to when its time is over."""

    target: FieldName


class Workflow(Described, frozen=True, kw_only=True):
    """A state machine."""

    version: str = "1.0.0"
    initial_state: FieldName
    initial_context: dict[str, Any] = {}
    states: Annotated[dict[FieldName, State], setting(min_length=1)]
    timeout_ms: Milliseconds | None = None
    on_timeout: OnTimeout | None = None
    link_filter: LinkFilter = "legal"
    max_chain_depth: Annotated[int, setting(ge=1, le=1000)] = 50


class Audit(Part, frozen=True, kw_only=True):
    """Where the audit goes: always into Redis, and with the sink ``file`` also into a file of JSON lines.

    Raises:
        Faults: the sink ``file`` without a path, or a path with another sink.
    """

    sink: Literal["stream", "file"] = "stream"
    path: str = ""

    def __post_init__(self) -> None:
        if (self.sink == "file") != bool(self.path):
            raise Faults([((), "sink file needs path, and only that one takes it")])


class Discovery(Part, frozen=True, kw_only=True):
    """What agents can find."""

    include: tuple[Literal["workflows", "capabilities", "proxy", "connections"], ...] = (
        "workflows",
        "capabilities",
        "proxy",
    )
    visibility: Literal["all", "byGuards"] = "all"


class Limits(Part, frozen=True, kw_only=True):
    """Limits of executors and sessions."""

    attempt_timeout_ms: Milliseconds = 30_000
    """The timeout of an attempt, if its reliability states none."""
    max_attempt_timeout_ms: Milliseconds = 3_600_000
    """The longest timeout of an attempt, whatever is stated."""
    submit_wait_ms: Annotated[int, setting(ge=100, le=600_000)] = 30_000
    """How long start and submit wait for the end of what they have begun."""
    proxy_hours: Annotated[int, setting(ge=1, le=8_760)] = 24
    """How long a session with a capability is kept after its last call."""


class Gateway(Part, frozen=True, kw_only=True):
    version: Literal["1.0.0"]
    include: tuple[str, ...] = ()
    capabilities: dict[ItemName, Capability] = {}
    connections: Connections = {}
    proxy: Proxy = Proxy()
    workflows: dict[ItemName, Workflow] = {}
    audit: Audit = Audit()
    discovery: Discovery = Discovery()
    limits: Limits = Limits()
