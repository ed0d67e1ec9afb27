"""Reads and changes the records of sessions."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from coordinator.settings import Settings
from coordinator.store import Library, Script, ScriptFailure, Store
from coordinator.toolsets.sessions.rules import tokens, trace
from coordinator.toolsets.sessions.rules.answers import Resolution
from coordinator.toolsets.sessions.rules.tokens import Payload

LIBRARY = Library("coordinator.toolsets.sessions")
_DAY_MS = 86_400_000

T = TypeVar("T")


class SessionState(msgspec.Struct, array_like=True):
    """The state of a session after a call, and the outcome of the call."""

    outcome: str
    """``ok``, or one of the reasons in the script's header: ``unclaimed`` with who holds the item now, ``held`` with
    when the claim of another expires."""
    now: int
    """The store's time in milliseconds."""
    seq: int
    """The ``seq`` of the token that the call returns."""
    act: str
    cond: str
    pending: str
    """The pending checkpoint; empty for none."""
    completed: bool
    detail: Any
    """Depends on script and outcome; False for none."""

    def details(self, wanted: type[T]) -> T:
        """Converts the detail to the type that the script's header states."""
        return msgspec.convert(self.detail, wanted)


class BoundClaim(NamedTuple):
    """The work item to bind a session to, and the caller's claim on it."""

    item: str = ""
    """Its UUID as 32 hex digits; empty: none."""
    actor: str = ""
    """The trusted id of the caller's actor."""
    fence: int = 0
    """The fence that the caller stated; 0: none."""


class BegunSession(NamedTuple):
    parent_known: bool
    fence: int
    """Of the claim; 0: no item is bound."""
    expires: int
    """When the claim does; 0: no item is bound."""


class Pending(NamedTuple):
    """A checkpoint that waits for an answer."""

    at: int
    """Since when."""
    seq: int
    """Of the handle."""
    new: int
    """1: by this call; 0: by one before."""


class Cut(NamedTuple):
    """The part of a trace for a trace token."""

    first: int
    """The place of the first event."""
    past: int
    """The place past the last one."""
    events: list[str]
    stood: str
    """The activity of the session, if the token was at another one; else empty."""


class Joined(NamedTuple):
    """The session that an agent has joined."""

    sid: str
    workflow: str
    version: str
    parent: list[str]
    """Session, workflow, activity and version; empty for none."""
    item: str
    """Empty: none is bound."""
    fence: int
    expires: int
    """When the claim that was shown does; 0: none was."""


class StatusDetail(NamedTuple):
    """What get_workflow_status shows besides the position."""

    left: list[str]
    """The activities that were left."""
    answers: list[str]
    """As JSON, if they are asked for."""
    last: str
    """The last answer as JSON; empty: there is none."""
    unresumed: str
    """The answer that was not resumed from; empty: there is none."""
    visit: int
    yielded_at: int
    """0: no checkpoint is pending."""
    parent: list[str]
    """As ``Joined.parent``."""
    claim: list[Any]
    """Item, fence, current holder (empty: nobody, or another agent), expiry, whether the claim is live; or empty."""
    workflow: str


NO_CLAIM = BoundClaim()
NO_TOKEN = -1
"""``seq`` of a call without a token."""

_START = Script(LIBRARY, "start", SessionState)
_JOIN = Script(LIBRARY, "join", SessionState)
_VISIT = Script(LIBRARY, "visit", SessionState)
_MOVE = Script(LIBRARY, "move", SessionState)
_YIELD = Script(LIBRARY, "yield_checkpoint", SessionState)
_RESUME = Script(LIBRARY, "resume_checkpoint", SessionState)
_PRESENT = Script(LIBRARY, "present_checkpoint", SessionState)
_RESPOND = Script(LIBRARY, "respond_checkpoint", SessionState)
_TRACE = Script(LIBRARY, "read_trace", SessionState)
_STATUS = Script(LIBRARY, "read_status", SessionState)


class SessionStore:
    """Sessions of any project.

    Every method raises ToolFailure ``store_unavailable`` or ``store_full`` as ``Store.run`` says, and
    ``invalid_session_token`` if the session of a token is not known.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._ttl_ms = settings.workflows.session_days * _DAY_MS
        self._events = settings.events_max

    async def ping(self) -> None:
        """Returns if the store answers and accepts writes."""
        await self._store.ping()

    async def _run(
        self, script: Script[SessionState], project: str, payload: Payload, entry: bytes, *args: str | bytes | int
    ) -> SessionState:
        try:
            return await self._store.run(
                script,
                project,
                payload.sid,
                payload.aid,
                payload.act,
                payload.seq,
                entry,
                self._ttl_ms,
                self._events,
                *args,
            )
        except ScriptFailure:
            raise tokens.invalid_token(tokens.UNKNOWN) from None

    async def start(
        self,
        project: str,
        new: Payload,
        entry: bytes,
        problem: str = "",
        parent: tuple[Payload, bytes] | None = None,
        claim: BoundClaim = NO_CLAIM,
        adopted: bool = False,
    ) -> SessionState:
        """Creates a session, or adopts one of another fleet.

        Args:
            new: the payload of its first token, without time.
            problem: what was wrong with the token that the caller passed, for the trace; empty: nothing.
            parent: the token of the parent, and the entry for the parent's trace.
            adopted: whether position, checkpoint and parent are those that ``new`` states. The outcome is ``known`` if
                the session is here already.

        Returns:
            The detail is ``BegunSession``.
        """
        above: tuple[str | bytes | int, ...] = ("", "", "", "", "")
        if parent is not None:
            token, noted = parent
            above = (token.sid, token.wf, token.act, token.v, noted)
        elif new.psid is not UNSET:
            above = (new.psid, new.pwf or "", new.pact or "", new.pv or "", b"")
        stated = (int(adopted), new.cond, new.checkpoint)
        return await self._run(_START, project, new, entry, new.wf, new.v, problem, *above, *claim, *stated)

    async def join(
        self,
        project: str,
        payload: Payload,
        entry: bytes,
        workflow: str,
        agent: str,
        problem: str = "",
        claim: BoundClaim = NO_CLAIM,
    ) -> SessionState:
        """Lets ``agent`` join the session of ``payload`` or, if that names none, the session of the claim's item.

        Without a workflow nothing changes. Then the outcome is ``which``, and the detail is the workflow of the item's
        session, so that the caller can first check that this workflow is still defined.

        Returns:
            The detail is ``Joined``.
        """
        return await self._run(_JOIN, project, payload, entry, workflow, agent, problem, *claim)

    async def visit(self, project: str, payload: Payload, entry: bytes, problem: str) -> SessionState:
        """Records a call that reads definitions. It is rejected while a checkpoint is pending."""
        return await self._run(_VISIT, project, payload, entry, problem[: trace.MAX_TEXT])

    async def move(
        self,
        project: str,
        payload: Payload,
        entry: bytes,
        target: str,
        condition: str,
        report: str,
        ends: bool,
        problem: str,
    ) -> SessionState:
        """Moves the session to another activity. The detail is ``Cut``.

        Args:
            report: a digest of the caller's report on the transition. The same call with another one is no
                repetition.
        """
        problem = problem[: trace.MAX_TEXT]
        return await self._run(_MOVE, project, payload, entry, target, condition, report, int(ends), problem)

    async def yield_checkpoint(
        self, project: str, payload: Payload, entry: bytes, checkpoint: str, again: bool, problem: str
    ) -> SessionState:
        """Yields a checkpoint, so that it waits for an answer. The detail is ``Pending``."""
        return await self._run(_YIELD, project, payload, entry, checkpoint, int(again), problem[: trace.MAX_TEXT])

    async def resume(self, project: str, payload: Payload, entry: bytes) -> SessionState:
        """Resumes the worker after an answer. The detail is the answer, in JSON."""
        return await self._run(_RESUME, project, payload, entry)

    async def present(
        self, project: str, payload: Payload, entry: bytes, checkpoint: str, instance: str, problem: str
    ) -> SessionState:
        return await self._run(_PRESENT, project, payload, entry, checkpoint, instance, problem[: trace.MAX_TEXT])

    async def respond(
        self,
        project: str,
        payload: Payload,
        entry: bytes,
        checkpoint: str,
        instance: str,
        answer: bytes,
        resolution: Resolution,
    ) -> SessionState:
        """Answers the pending checkpoint. The detail is how long it was pending, in milliseconds."""
        return await self._run(
            _RESPOND,
            project,
            payload,
            entry,
            checkpoint,
            instance,
            resolution.least_ms,
            answer,
            resolution.option,
            resolution.how,
            resolution.problem.message[: trace.MAX_TEXT] if resolution.problem else "",
            resolution.late.message[: trace.MAX_TEXT] if resolution.late else "",
        )

    async def trace(self, project: str, payload: Payload, whole: bool) -> SessionState:
        """Reads the trace if ``whole``, else no events. The detail is (place of the first event, events)."""
        return await self._run(_TRACE, project, payload, b"", int(whole))

    async def status(self, project: str, payload: Payload, answers: bool = False) -> SessionState:
        """Reads the state of the session, with all answers if ``answers``. The detail is ``StatusDetail``."""
        return await self._run(_STATUS, project, payload, b"", int(answers))

    async def seen(self, project: str, session: str) -> SessionState:
        """Reads the state of the session with this id, without a token and so without a new one. The detail is
        ``StatusDetail``."""
        payload = Payload(wf="", act="", skill="", cond="", v="", seq=NO_TOKEN, ts=0, sid=session, aid="")
        return await self._run(_STATUS, project, payload, b"", 0)
