"""What a tool is: a contract (two structs), a handler, and how it behaves.

A toolset's ``tools`` make one ``Tool`` per tool of its seed; the transport lists them,
decodes arguments into ``arguments``, calls ``handler`` and encodes what it returns. The
same object serves the fast path, the SDK server, stdio and workflow steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from coordinator.errors import ToolFailure
    from coordinator.settings import Settings
    from coordinator.store import Store
    from coordinator.toolsets.actor import ActorResolver
    from coordinator.toolsets.caller import Caller


class Criticality(IntEnum):
    """What an overloaded front-end does without first: the lower, the sooner a call is turned away."""

    SHEDDABLE = 0
    """Searches, lists, overviews."""
    NORMAL = 1
    """New work: creating, claiming."""
    READ = 2
    """What is read by its id."""
    CRITICAL = 3
    """What finishes work: heartbeats, releases, transitions, reports. Without it, work is lost and done again."""

    @property
    def label(self) -> str:
        """As metrics and settings spell it."""
        return self.name.lower()


class Call(msgspec.Struct, frozen=True, gc=False):
    """What a handler knows of one request besides its arguments."""

    project: str
    """The partition the request addressed; matches ``^[a-z0-9][a-z0-9_-]{0,62}$``."""
    request_id: str = ""
    """For logs only; names the HTTP request, never used for idempotency."""
    caller: Caller | None = None
    """Who presented a verified credential; none: nobody identified himself."""
    trace: str = ""
    """The trace that the call says it is part of; see ``coordinator.metrics.tracing``."""
    idle: Callable[[float], None] | None = None
    """To be told, by a call that parks, for how many seconds it has done nothing but wait for its event."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A result in a form that its seed prescribes, where a struct (sent as it is and as JSON text) would not do."""

    text: tuple[str, ...] = ()
    """The text blocks, verbatim; none: ``structured`` as JSON."""
    structured: Any = None
    """The structured content; none: the result has text only. A list reaches clients of revisions
    before 2026-07-28 as ``{"result": [...]}``: only an object is allowed there."""
    meta: Mapping[str, Any] | None = None
    """``_meta`` of the result."""
    is_error: bool = False


@dataclass(slots=True, frozen=True)
class Services:
    """What handlers share within one process."""

    settings: Settings
    store: Store
    resolve_actor: ActorResolver


Handler = Callable[[Call, Any], Awaitable[msgspec.Struct]]
"""Takes the decoded arguments, returns the result struct or a ``Reply``.

Raises:
    ToolFailure: for everything the caller is to be told about.
"""


@dataclass(slots=True, frozen=True)
class Tool:
    """One tool of a seed."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    result: tuple[type[msgspec.Struct], ...]
    """What a call may return: one struct, or one for each operation of the tool; none: no output schema
    is published."""
    handler: Handler
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    open_world: bool = False
    """Whether it may reach beyond this system."""
    fast: bool = True
    """Answers at once. False for calls that may wait or stream: these stay with the SDK."""
    waits: Callable[[Any], bool] | None = None
    """Whether a call with these arguments may wait, where that depends on them."""
    parks: bool = False
    """Whether calls that wait do nothing most of that time but wait for an event."""
    criticality: Criticality | Callable[[Any], Criticality] | None = None
    """How much depends on calls, by their arguments where they differ; none: READ or NORMAL, by ``read_only``."""
    refusal: Callable[[ToolFailure], Reply] | None = None
    """How failures look, where the seed has a shape of its own for them; none: seed 004's ToolError."""

    def weigh(self, arguments: Any) -> Criticality:
        """How much depends on a call with these arguments."""
        if callable(self.criticality):
            return self.criticality(arguments)
        if self.criticality is None:
            return Criticality.READ if self.read_only else Criticality.NORMAL
        return self.criticality

    def patient(self, arguments: Any) -> bool:
        """Whether a call with these arguments may take longer than a request normally does."""
        return not self.fast or (self.waits is not None and self.waits(arguments))


@dataclass(slots=True, frozen=True)
class Toolset:
    """The tools of one seed, in the seed's order."""

    name: str
    title: str
    instructions: str
    tools: tuple[Tool, ...]
    start: Callable[[], None] = lambda: None
    """Begins in the background what calls will need; a process that serves calls it once. Does not wait."""
    drain: Callable[[], Awaitable[None]] | None = None
    """Ends calls that wait; the process is about to stop."""
    hold: Callable[[bool], Awaitable[None]] | None = None
    """Ends calls that wait and takes no more of them (True), or takes them again (False)."""
    configure: Callable[[Settings], None] = lambda settings: None
    """Takes over settings that were read again, for every call that begins later. Does not fail."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """For people: by tool, the arguments of some calls."""
