"""An operation in progress (``Task``), its writes (``Advance``), and how it ended (``Ending``)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.results import Changes, KeptValue

MAX_NESTING = 10
"""How deep sub-workflows may be nested."""

_encode = msgspec.json.Encoder().encode


class HopTaken(Struct, array_like=True, frozen=True):
    from_state: str
    transition: str
    to_state: str
    version: int


class Approval(Struct, array_like=True, frozen=True):
    """A change of approvals: one is asked for, or all open ones are closed."""

    what: Literal["ask", "resolved", "withdrawn"]
    id: str = ""
    queue: str = ""
    distinct: bool = False
    """Whether the requester must not resolve it."""
    by: str = ""
    transition: str = ""
    via: str = ""
    """How the answer came, if not by a call of its own: ``client``."""


class Task(Struct, kw_only=True, omit_defaults=True):
    """An operation in progress. Between two executors it is stored in the step that executes the next one."""

    op: str
    """The correlation id: one for each start, submit and timeout."""
    kind: Literal["start", "submit", "timeout"]
    via: str = ""
    """As ``Approval.via``."""
    workflow: str
    definition: str
    """Key in the bundle."""
    principal: Principal
    input: dict[str, Any] = {}
    nesting: int = 0
    owner: str = ""
    """Whose states of servers its executors use; empty: the instance's own, or in a session those of nobody."""
    open_approvals: bool = False

    # The instance as committed so far.
    state: str
    version: int
    context: dict[str, Any] = {}
    evidence: dict[str, int] = {}
    kept: list[KeptValue] = []
    """Values that are kept whole."""

    # The current hop.
    transition: str = ""
    """Empty: the hop enters a state without a transition (the initial state, or that of a timeout)."""
    arguments: dict[str, Any] = {}
    phase: Literal["run", "enter"] = "run"
    candidate: int = 0
    """0: the executor; from 1: its fallbacks."""
    target: str = ""
    """The state that the hop leads to, once known."""
    draft: dict[str, Any] | None = None
    """The context to be committed with the hop."""
    marks: list[str] = []
    """Kinds of evidence of the hop so far."""
    wholes: Changes = {}
    """What is to be kept, or not any more, with the hop."""
    carried_out: bool = False
    """Whether an executor of the hop has had an effect."""
    asked: list[Approval] = []
    then: str = ""
    """The transition to take right after the start: the call of a capability."""
    then_arguments: dict[str, Any] = {}
    wait: str = ""
    """The id of the sub-workflow or flow that the hop waits for; empty: none."""
    waited_ms: int = 0
    """How long it has waited for a flow."""
    tries: int = 0
    """How many sub-workflows or flows of the candidate have failed."""

    chain: list[HopTaken] = []
    """Hops taken after the requested one."""
    first_done: bool = False
    """Whether the requested hop is committed."""

    @property
    def place(self) -> str:
        """Identifies the current executor. Includes the phase, since entering a state keeps the version."""
        return "\0".join((self.op, str(self.version), self.phase, self.transition))

    def packed(self) -> str:
        """The JSON in which a step carries the task."""
        return _encode(self).decode()


class OperationProblem(Struct, kw_only=True, omit_defaults=True):
    """Why an operation failed."""

    code: str
    message: str
    details: dict[str, Any] = {}


class Ending(Struct, kw_only=True, omit_defaults=True):
    """How an operation ended; kept for waiting calls."""

    state: str
    version: int
    context: dict[str, Any] = {}
    outcome: str = ""
    terminal: bool = False
    chain: list[HopTaken] = []
    stopped: str = ""
    """Why the chain stopped early."""
    retry: str = ""
    """The deterministic transition to submit to continue after the chain stopped."""
    error: OperationProblem | None = None


class Event(Struct, array_like=True, frozen=True):
    """One entry of the audit."""

    type: str
    payload: str
    """JSON, without secrets."""


class NextStep(Struct, array_like=True, frozen=True):
    """The step that must end before the operation goes on."""

    kind: Literal["run", "child"]
    """run: a worker executes it. child: it begins when the sub-workflow ``child`` has ended."""
    task: str
    delay_ms: int = 0
    expires_ms: int = 0
    """How long to wait for the sub-workflow; 0: without limit."""
    child: str = ""


class Advance(Struct, kw_only=True, omit_defaults=True):
    """What a script writes to an instance atomically. The script uses these names (``lua/instances/advances.lua``)."""

    op: str
    base: int
    """The version from which it was planned."""
    state: str
    version: int
    context: str = ""
    """JSON; empty: unchanged."""
    kept: str = ""
    """JSON of all that is kept whole; empty: unchanged."""
    results: list[tuple[int, str]] = []
    """What is stored at their places; empty: nothing any more."""
    evidence: list[str] = []
    """The JSON of each new piece of evidence; the script adds the time."""
    counts: str = ""
    """JSON of the number of pieces of evidence by kind; empty: unchanged."""
    approvals: list[Approval] = []
    audit: list[Event] = []
    actor: str = ""
    ended: str = ""
    """The outcome of the workflow, if this ends it."""
    failure: str = ""
    """JSON of the failure to show until something succeeds; ``-`` clears the last failure."""
    next: NextStep | None = None
    ending: str = ""
    """JSON of ``Ending``, if the operation is over."""


_task = msgspec.json.Decoder(Task).decode
_ending = msgspec.json.Decoder(Ending).decode


def unpacked(text: str) -> Task:
    return _task(text)


def ending_of(text: str | bytes) -> Ending:
    return _ending(text)
