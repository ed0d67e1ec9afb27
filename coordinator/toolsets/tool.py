"""What a tool is: a contract (argument and result structs), a handler, and how it behaves.

A toolset's ``tools`` make one ``Tool`` per tool of its contract. The transport lists them, decodes arguments into
``arguments``, calls ``handler`` and encodes what it returns. The same object serves the fast path, the SDK's server,
stdio and workflow steps.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.service import Service

if TYPE_CHECKING:
    from coordinator.errors import ToolFailure
    from coordinator.settings import Settings
    from coordinator.store import Store
    from coordinator.toolsets.actor import ActorResolver
    from coordinator.toolsets.caller import Caller, Delegation
    from coordinator.toolsets.questions import Answer


AGENT_HEADER = "Fleet-Agent"
"""The header in which a client names its agent, once for all of its calls."""
RESULT_CHARS = 100_000
"""``Tool.result_chars`` of tools whose answers come in pages: JSON with many ids has more tokens than its characters
suggest, so hosts would cut these answers by default."""


class Criticality(IntEnum):
    """How important a call is: an overloaded front-end turns away the lowest class first."""

    SHEDDABLE = 0
    """Searches, lists, overviews."""
    NORMAL = 1
    """New work: creating, claiming."""
    READ = 2
    """Reads by id."""
    CRITICAL = 3
    """Calls that finish work: heartbeats, releases, transitions, reports. Without them, work is lost and done again."""

    @property
    def label(self) -> str:
        """Its spelling in metrics and settings."""
        return self.name.lower()


class Delivery:
    """Whether the answer to a call reaches its caller. The transport knows; a tool may want to undo what it did."""

    __slots__ = ("_over", "_told", "answered", "arrived")

    def __init__(self) -> None:
        self.answered = False
        """Whether there is an answer: what is sent from then on contains it."""
        self.arrived = False
        """Whether it was sent while the caller's connection was open."""
        self._told: Callable[[bool], Awaitable[None]] | None = None
        self._over = False

    async def tell(self, told: Callable[[bool], Awaitable[None]]) -> None:
        """Has ``told`` called once, with ``arrived``, when the request is over: at once if it is over already."""
        self._told = told
        if self._over:
            await self.end()

    async def end(self) -> None:
        """The request is over."""
        self._over = True
        told, self._told = self._told, None
        if told is not None:
            await told(self.arrived)


class Notice:
    """What progress notifications say while a call waits. The tool knows; the transport sends them."""

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text: Callable[[], Awaitable[str]] | None = None
        """Gives a short sentence; None: that the call waits."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """What a handler knows about a request besides its arguments."""

    project: str
    """The partition that the request addresses; matches ``^[a-z0-9][a-z0-9_-]{0,62}$``."""
    request_id: str = ""
    """Names the HTTP request in logs; never used for idempotency."""
    caller: Caller | None = None
    """The authenticated caller; None: the caller is anonymous."""
    agent: str = ""
    """The agent that the client has named (``AGENT_HEADER``); not checked, and '' if it has named none."""
    trace: str = ""
    """The trace context that came with the call; see ``coordinator.metrics.tracing``."""
    idle: Callable[[float], None] | None = None
    """A call that parks reports here for how many seconds it has only waited for its event."""
    delivery: Delivery | None = None
    """Of a call that may wait; None: its answer counts as delivered."""
    hung_up: asyncio.Future[None] | None = None
    """Completed when the client has ended its input, and perhaps still reads: a call that waits for an event ends then.
    None: calls whose clients have hung up are cancelled."""
    can_ask: bool = False
    """Whether the handler may return a ``Question``: the client passes it on, and the caller may act on the answer."""
    answer: Answer | None = None
    """The answer to a question of an earlier call of this kind, by the same caller."""
    can_defer: bool = False
    """Whether the handler may return ``Pending``: the client asks later for the result."""
    elapsed_ms: int | None = None
    """Of a call about a task: how long ago that was created. None: the call is none."""
    recheck: Callable[[], Awaitable[object]] | None = None
    """Of a call that may wait, unless the transport calls it: raises ToolFailure if its caller is no longer allowed."""
    notice: Notice | None = None
    """Of a call whose caller may get progress notifications."""
    owner: str = ""
    """Of a call by a step of a workflow: whose states of servers that step uses, and so what it begins."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A result in a form that its contract prescribes. (Other results are structs, sent as they are and as text.)"""

    text: str = ""
    """The text, verbatim; empty: ``structured`` as JSON. It is one block: clients join blocks, and read a document."""
    indented: bool = False
    """Whether the JSON in the text is indented."""
    structured: Any = None
    """The structured content; None: the result has text only. Clients of revisions before 2026-07-28 get a list as
    ``{"result": [...]}``, because these revisions allow only objects."""
    meta: Mapping[str, Any] | None = None
    """``_meta`` of the result."""
    blocks: Sequence[Mapping[str, Any]] = ()
    """Content blocks after the text: images, sounds."""
    is_error: bool = False


@dataclass(slots=True, frozen=True)
class Services:
    """What handlers share within one process."""

    settings: Settings
    store: Store
    resolve_actor: ActorResolver
    waits: Waits | None = None
    """The room of waiting reads; None: each toolset has one of its own."""
    delegate: Callable[[Caller, str, Delegation, str], Awaitable[str]] | None = None
    """Makes a token for a claim, by caller, agent and the token's number; None: in this process nobody can use one."""

    def room(self) -> Waits:
        return self.waits or Waits(FeedReader(self.store))


Handler = Callable[[Call, Any], Awaitable[msgspec.Struct]]
"""Takes the decoded arguments, returns the result struct or a ``Reply``.

Raises:
    ToolFailure: for everything the caller is to be told about.
"""


@dataclass(slots=True, frozen=True)
class Deferral:
    """How a call goes on that has become a task."""

    state: type[msgspec.Struct]
    """What the task consists of."""
    read: Callable[[Call, Any], Awaitable[Any]]
    """Takes a state; returns the call's result, ``Pending``, a ``Question`` or ``Stopped``. With ``Call.answer``, it
    first acts on the answer to a question. Raises ToolFailure."""
    stop: Callable[[Call, Any], Awaitable[Any]] | None = None
    """Takes a state, and stops what goes on; None: that belongs to others, too, so it goes on. Raises ToolFailure."""
    about: Callable[[Any], str] = lambda _: ""
    """Takes a state; returns the path of the document that changes when the task may have changed. '': there is none,
    so clients are not told of the task, and ask."""


@dataclass(slots=True, frozen=True)
class Tool:
    name: str
    description: str
    arguments: type[msgspec.Struct]
    result: tuple[type[msgspec.Struct], ...]
    """What a call may return: one struct, or one for each operation of the tool; empty: no output schema is
    published."""
    handler: Handler
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    open_world: bool = False
    """Whether it may reach beyond this system."""
    stateless: bool = False
    """Whether its toolset keeps nothing in a project, so that none is ever written to by it."""
    deferral: Deferral | None = None
    """How a call goes on that returns ``Pending``; None: none does."""
    polled: bool = False
    """Whether it is not called by name, but reads or changes what another call has begun."""
    asks: bool = False
    """Whether it may return a ``Question``. The answer changes something, even if the tool itself only reads."""
    waits: Callable[[Any], bool] | None = None
    """Whether a call with these arguments may wait; None: every call answers at once. The SDK's server takes calls that
    may wait."""
    wait_ms: Callable[[Any], int] | None = None
    """For how many milliseconds a call that waits asks to do so; None: it does not say."""
    parks: bool = False
    """Whether a waiting call spends almost all of its time waiting for an event, and so needs hardly any resources."""
    only_looks: bool = False
    """Whether a waiting call leaves nothing behind if it is cancelled, so that it needs no watch over its answer."""
    result_chars: int = 0
    """Up to how many characters hosts should show an answer whole to their model; 0: it is never long."""
    criticality: Criticality | Callable[[Any], Criticality] | None = None
    """How important calls are, possibly by their arguments; None: READ or NORMAL, by ``read_only``."""
    refusal: Callable[[ToolFailure], Reply] | None = None
    """Makes the answer to a failed call in the toolset's own form; None: that of ``errors.py``."""

    for_claims: Callable[[Delegation, Any], bool] | None = None
    """Whether the bearer of a token for one claim may make a call with these arguments; None: it may make none."""
    makes: Callable[[Any], str] | None = None
    """The path of the document about what a call has made, from its result; hosts get a link to it. None: none is made,
    or there is no such document."""

    def weigh(self, arguments: Any) -> Criticality:
        """How important a call with these arguments is."""
        if callable(self.criticality):
            return self.criticality(arguments)
        if self.criticality is None:
            return Criticality.READ if self.read_only else Criticality.NORMAL
        return self.criticality

    def may_wait(self, arguments: Any) -> bool:
        """Whether a call with these arguments may take longer than a request normally does."""
        return self.waits is not None and self.waits(arguments)

    def wait_seconds(self, arguments: Any) -> float:
        """For how many seconds a call that waits asks to do so; infinite if it does not say."""
        return math.inf if self.wait_ms is None else self.wait_ms(arguments) / 1000


COMPLETIONS_MOST = 100
"""How many values a completion has at most."""


class Completed(NamedTuple):
    """Values that begin with what somebody has typed."""

    values: list[str]
    """At most ``COMPLETIONS_MOST``."""
    more: bool = False
    """Whether there are, or may be, more."""


Complete = Callable[[Call, str], Awaitable[Completed]]
"""Finds ids, as the caller may read them, that begin with a text. Reads the store once at most, in bounded time.

Raises:
    ToolFailure: the store does not answer.
"""


def starting_with(known: Callable[[], Iterable[str]]) -> Complete:
    """Completes names that a process has in memory, in their order."""

    async def complete(_call: Call, typed: str) -> Completed:
        found = sorted(name for name in known() if name.startswith(typed))
        return Completed(found[:COMPLETIONS_MOST], len(found) > COMPLETIONS_MOST)

    return complete


class Resource(NamedTuple):
    """A document for clients to read, in JSON."""

    uri: str
    name: str
    description: str
    text: str


@dataclass(slots=True, frozen=True)
class Document:
    """A kind of document about a project, read by its URI: the answer of a tool that reads, as JSON."""

    path: str
    """The URI without ``fleet://<project>/``; ``{id}`` stands for the id of a thing."""
    name: str
    title: str
    description: str
    tool: Tool
    """Answers. In permission, criticality and deadline, reading the document is a call of this tool."""
    arguments: Callable[[str], msgspec.Struct]
    """The tool's arguments, for an id in its usual form ('' for a document about all)."""
    ids: Callable[[str], str | None] = lambda text: None
    """An id as the tool knows it; None: nothing can have this id."""
    follows: Literal["id", "root", "all", "offer"] = "id"
    """What may change it: events of the thing, of the whole tree that the item is in, or all of the toolset; or what
    the toolset offers (``Toolset.offers``)."""


def document_uri(project: str, path: str) -> str:
    return f"fleet://{project}/{path}"


@dataclass(slots=True, frozen=True)
class Toolset:
    """The tools of one toolset, in their order."""

    name: str
    title: str
    instructions: str
    tools: tuple[Tool, ...]
    people: tuple[Tool, ...] = ()
    """What only the console calls, for people; it replaces tools of the same names there."""
    part_of: str = ""
    """The toolset whose things it is about. Where that is served, too, its instructions are enough."""
    service: Service = field(default_factory=Service)
    """What goes on beside its calls; when it stops, calls that wait end with a retry."""
    hold: Callable[[bool], Awaitable[None]] | None = None
    """Ends waiting calls and accepts no more of them (True), or accepts them again (False)."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Arguments of example calls, by tool."""
    resources: tuple[Resource, ...] = ()
    """Readable by whoever may use any of the tools."""
    offers: Callable[[], object] | None = None
    """What agents find through its tools besides the things of a project: definitions, a catalogue. Another object or
    value when that has changed; does not wait. None: it never changes."""
    documents: tuple[Document, ...] = ()
    """Readable by whoever may use their tools."""
    completes: Mapping[str, Complete] = field(default_factory=dict)
    """How ids are completed for whoever may use the tools that read, by what they name: item, flow, procedure."""
