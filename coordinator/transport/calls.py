"""Runs one tool call: deadline, outcome, encoding. The same for every transport.

A call past its deadline is cancelled, and answered with ``deadline_exceeded``. Calls that wait by design
(``Tool.may_wait``) have a later one, before which their tools should end the wait themselves.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

import msgspec
import structlog

from coordinator.errors import Kind, ToolFailure
from coordinator.identity.actors.attribution import attribute_call
from coordinator.identity.callers.authenticator import LOOK_SECONDS
from coordinator.metrics import tracing
from coordinator.overload import SURPLUS, Admission, ShardedAdmission, Ticket
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.deferral import Pending, Stopped
from coordinator.toolsets.questions import Question
from coordinator.toolsets.tool import Call, Completed, Criticality, Reply, Tool, document_uri
from coordinator.transport.deadlines import Deadlines
from coordinator.transport.http.replies import to_json
from coordinator.transport.metrics import REQUEST_DURATION, REQUESTS, SLOT_REQUESTS
from coordinator.transport.rounds import Rounds

_log = structlog.get_logger(__name__)

_NOT_FOUND = frozenset(("", "RESOURCE_NOT_FOUND", "invalid_session_token"))
"""Codes of failures that a wrong project may cause; empty: the toolset has its own form of failures."""

HINT = "fleet-coordinator/hint"
"""Key of a hint in ``_meta`` of a result that is no object."""

Recheck = Callable[[], Awaitable[object]]
"""Called periodically while a call waits. Raises ToolFailure if its caller is no longer authorized."""

_GRACE_SECONDS = 0.5

_OUTCOMES: dict[Kind, str] = {"permanent": "error", "transient": "conflict", "shedding": "shed"}


Unfinished = Question | Pending | Stopped
_UNFINISHED = (Question, Pending, Stopped)


class Done(msgspec.Struct, frozen=True):
    """The answer to a call."""

    body: bytes
    """The structured content, as JSON; empty: none."""
    failed: bool
    retry_after: int | None = None
    """Seconds for a ``Retry-After`` header, when the call was shed."""
    text: str = ""
    """The text block; empty: ``body``."""
    indented: bool = False
    """Whether ``body`` is indented in the text block."""
    meta: Mapping[str, Any] | None = None
    """``_meta`` of the result."""
    hint: bytes = b""
    """A hint to the reader, as JSON; it is in ``body``, ``text`` or ``meta``, too."""
    code: str = ""
    """Of a failure; empty: there is none, or its handler has answered it in the toolset's own form."""
    link: Mapping[str, str] | None = None
    """A link to what was made, as a content block. Older revisions do not know such blocks."""
    blocks: Sequence[Mapping[str, Any]] = ()
    """Further content blocks."""
    unfinished: Unfinished | None = None
    """Of a tool that is polled: it is not over, or was stopped. The rest is empty then."""
    interim: Mapping[str, Any] | None = None
    """The whole result, if the call is not complete: ``resultType`` and what belongs to it. The rest is empty then."""

    def shown(self) -> str:
        """The text block: one, so that clients which join blocks have one document."""
        return self.text or (msgspec.json.format(self.body, indent=2) if self.indented else self.body).decode()

    def content(self, modern: bool) -> list[Any]:
        """The content blocks of the result for a client, as they are encoded to JSON."""
        link = [self.link] if self.link is not None and modern else []
        return [{"type": "text", "text": self.shown()}, *self.blocks, *link]

    def hinted(self, hint: str) -> Done:
        """The answer with a hint: a member of the object that it is, also beside the sentence of a failure; of a list,
        or of text alone, in ``_meta``, because a document has no other place for it."""
        body, text, encoded = self.body, self.text, to_json(hint)
        if not body.startswith(b"{"):
            return msgspec.structs.replace(self, meta={**(self.meta or {}), HINT: hint}, hint=encoded)
        body = body[:-1] + (b"" if body == b"{}" else b",") + b'"hint":' + encoded + b"}"
        return msgspec.structs.replace(self, body=body, text=text and f"{text}\nhint: {hint}", hint=encoded)

    def structured(self, modern: bool) -> bytes:
        """The structured content for a client; before revision 2026-07-28 it must be an object."""
        if modern or not self.body.startswith(b"["):
            return self.body
        return b'{"result":' + self.body + (b',"hint":' + self.hint if self.hint else b"") + b"}"


class Hints(Protocol):
    """What is known about projects; implemented by ``coordinator.transport.projects.Projects``."""

    def written(self, project: str) -> bool:
        """Whether the project is known to have data: there is no hint then."""

    async def hint(self, project: str, caller: Caller | None) -> str:
        """The hint for a reader of the project; empty: none. Does not fail."""

    async def misread(self) -> ToolFailure | None:
        """Why something could not be read, if the store is at fault and not this process; None: it is not."""

    async def complete(self, typed: str, caller: Caller | None) -> Completed:
        """Names of projects that the caller may see and that begin with a text. Raises ToolFailure."""


class Calls:
    """Runs the calls of one process.

    Args:
        deadline_ms: how long a call of a fast tool may take, in milliseconds.
        admission: admits or sheds calls; None: all are admitted.
        longest_wait_ms: how long a call that waits may take, in milliseconds.
        hints: gives hints for reads; None: there are none.
        rounds: questions to people, and tasks; None: there are none.
    """

    def __init__(
        self,
        deadline_ms: int,
        admission: Admission | ShardedAdmission | None = None,
        longest_wait_ms: int = 49_000,
        hints: Hints | None = None,
        rounds: Rounds | None = None,
    ) -> None:
        self.rounds = rounds
        """Questions to people, and tasks; None: there are none."""
        self.hints = hints
        self._seconds = deadline_ms / 1000
        self._longest = longest_wait_ms / 1000
        self._deadlines = Deadlines(self._seconds / 10)
        self._admission = admission
        self._tracing = tracing.active()

    def shed_at_once(self, tool: Tool, criticality: Criticality, transport: str) -> int:
        """Sheds a call if there is no capacity for it: the cheapest way, before the call has an id.

        Returns:
            Milliseconds until a retry (``shed_answer`` makes the answer); 0: it is not shed.
        """
        if self._admission is None or self._tracing is not None:
            return 0
        later = self._admission.turns_away(criticality)
        if later:
            count_answer(tool.name, "shed", transport, None)
        return later

    @staticmethod
    def shed_answer(tool: Tool, retry_after_ms: int) -> Done:
        return _failed(tool, ToolFailure("over_capacity", SURPLUS, retry_after_ms=retry_after_ms))

    def refusal(self, tool: Tool, call: Call, arguments: Any, transport: str) -> Done | None:
        """The answer to a call that the slow path sheds before any work; None: continue with ``run``."""
        if self._admission is None:
            return None
        parks = tool.parks and tool.may_wait(arguments)
        failure = self._admission.refusal(tool.weigh(arguments), parks=parks)
        return None if failure is None else self.refused(tool, failure, transport, call)

    def enter(
        self, tool: Tool, criticality: Criticality, call: Call, arguments: Any, transport: str
    ) -> Ticket | Done | None:
        """Admits or sheds a call of the fast path, before any other work is done for it.

        Returns:
            A ticket to pass to ``run``; None: ``run`` waits for one itself, or needs none; or the answer, if the call
            is shed.
        """
        if self._admission is None:
            return None
        try:
            if call.caller is not None:
                _attribute(tool, arguments, call.caller)
            parks = tool.parks and tool.may_wait(arguments)
            return self._admission.enter(criticality, _who(call, arguments), call.project, parks=parks)
        except ToolFailure as failure:
            return self.refused(tool, failure, transport, call)

    async def run(
        self,
        tool: Tool,
        call: Call,
        arguments: Any,
        transport: str,
        recheck: Recheck | None = None,
        ticket: Ticket | None = None,
    ) -> Done:
        """Runs the handler and encodes its result or failure. Raises only when it is cancelled from outside.

        Args:
            recheck: ends a waiting call when its credential is no longer valid.
            ticket: the ticket from ``enter``.
        """
        began = perf_counter()
        idle: list[float] | None = None
        handling: Awaitable[Any] | None = None
        span, outcome, code, rejected = None, "cancelled", "", False
        if self._tracing is not None:
            span = self._tracing.call(tool.name, call.project, call.request_id, transport, call.trace)
        may_wait, seconds = (ticket is None or not ticket.holds) and tool.may_wait(arguments), self._seconds
        if may_wait:
            # A tool that parks its calls ends them itself, with a successful answer.
            seconds = self._longest + (_GRACE_SECONDS if tool.parks else 0)
        task = self._deadlines.start(began + seconds)
        if may_wait and tool.parks:
            idle = []
            call = msgspec.structs.replace(call, idle=idle.append)
        try:
            if ticket is None:
                ticket = await self._let_in(tool, call, arguments)
            elif self._admission is not None:
                self._admission.begins(ticket)
            handling = tool.handler(call, arguments)
            result: Any = await (_rechecked(recheck, handling) if may_wait and recheck is not None else handling)
            kind = type(result)
            if kind in _UNFINISHED:
                done = await self._unfinished(tool, call, arguments, result)
            else:  # mostly without a call
                plain = kind is not Reply and tool.makes is None
                done = Done(to_json(result), False) if plain else _done(tool, call, result)
            outcome = "error" if done.failed else "ok"
        except ToolFailure as failure:
            outcome, code, rejected = _outcome(failure), failure.code, handling is None
            done = _failed(tool, failure)
        except asyncio.CancelledError:
            if not self._deadlines.expired(task):
                raise
            outcome, code = "conflict", "deadline_exceeded"
            done = _failed(tool, _late(tool, seconds))
        except Exception:
            _log.exception("tool failed", tool=tool.name, request_id=call.request_id)
            self._deadlines.stop(task)
            misread = await self.hints.misread() if self.hints is not None else None
            fault, code = (_defect(call), "") if misread is None else (misread, misread.code)
            outcome, done = _outcome(fault), _failed(tool, fault)
        finally:
            self._deadlines.stop(task)
            if ticket is not None and self._admission is not None:
                self._admission.leave(ticket)
            if span is not None:
                span.end(outcome, code)
                span.leave()
        if tool.read_only and self.hints is not None and not self.hints.written(call.project) and not done.interim:
            done = await self._hinted(self.hints, tool, call, done, code)
        # Waiting for an item does not count as latency; it has its own metric.
        took = perf_counter() - began - sum(idle or ())
        count_answer(tool.name, outcome, transport, None if rejected else took)
        return done

    async def _unfinished(self, tool: Tool, call: Call, arguments: Any, unfinished: Unfinished) -> Done:
        """The answer to a call that is not over: a question, or a task; if there can be none, that of the call."""
        if tool.polled or isinstance(unfinished, Stopped):
            return Done(b"", False, unfinished=unfinished)
        interim = None
        try:
            if self.rounds is not None and isinstance(unfinished, Pending):
                interim = await self.rounds.tasks.create(tool, call, unfinished) if call.can_defer else None
            elif self.rounds is not None and isinstance(unfinished, Question):
                interim = await self.rounds.asking.ask(tool, call, arguments, unfinished) if call.can_ask else None
        except ToolFailure as failure:
            # The call itself has succeeded.
            _log.warning("a call cannot go on in another request", tool=tool.name, reason=failure.message)
        return Done(b"", False, interim=interim) if interim is not None else _done(tool, call, unfinished.otherwise)

    def refused(self, tool: Tool, failure: ToolFailure, transport: str, call: Call) -> Done:
        """The answer to a call that was refused before its handler ran."""
        if self._tracing is not None:
            span = self._tracing.call(tool.name, call.project, call.request_id, transport, call.trace)
            span.end(_outcome(failure), failure.code)
            span.leave()
        count_answer(tool.name, _outcome(failure), transport, None)
        return _failed(tool, failure)

    @staticmethod
    async def _hinted(hints: Hints, tool: Tool, call: Call, done: Done, code: str) -> Done:
        if tool.stateless or (done.failed and code not in _NOT_FOUND):
            return done
        hint = await hints.hint(call.project, call.caller)
        return done.hinted(hint) if hint else done

    async def _let_in(self, tool: Tool, call: Call, arguments: Any) -> Ticket | None:
        if call.caller is not None:
            _attribute(tool, arguments, call.caller)
        if self._admission is None:
            return None
        criticality, who = tool.weigh(arguments), _who(call, arguments)
        ticket = self._admission.enter(criticality, who, call.project, parks=tool.parks and tool.may_wait(arguments))
        return await self._admission.wait(criticality, who, call.project) if ticket is None else ticket

    def wait_seconds(self, tool: Tool, arguments: Any) -> float:
        """How long a call with these arguments waits at most; 0: it answers at once."""
        return min(self._longest, tool.wait_seconds(arguments)) if tool.may_wait(arguments) else 0.0


def count_answer(tool: str, outcome: str, transport: str, seconds: float | None) -> None:
    """A call was answered.

    Args:
        outcome: ok, error, conflict, shed, invalid or internal.
        transport: fast, sdk or stdio.
        seconds: how long it took, without the time it was parked; None: it was shed before it began.
    """
    groups = REQUESTS.cells.groups
    try:
        requests, durations, of_slot = groups[tool, outcome, transport]
    except KeyError:
        of_slot = SLOT_REQUESTS.labels(*SLOT_REQUESTS.cells.own)
        requests, durations = REQUESTS.labels(tool, outcome), REQUEST_DURATION.labels(tool, transport)
        groups[tool, outcome, transport] = requests, durations, of_slot
    requests.value += 1.0
    if seconds is not None:
        durations.observe(seconds)
    of_slot.value += 1.0


def _attribute(tool: Tool, arguments: Any, caller: Caller) -> None:
    """Puts the caller into the arguments, if it may make this call. Raises ToolFailure."""
    if caller.claim is not None and not (tool.for_claims is not None and tool.for_claims(caller.claim, arguments)):
        raise ToolFailure(
            "permission_denied", "this token is for one claim, and good for its item only while that lasts"
        )
    attribute_call(arguments, caller)


def _late(tool: Tool, seconds: float) -> ToolFailure:
    effect = "" if tool.read_only else "; it may have taken effect"
    return ToolFailure("deadline_exceeded", f"{tool.name} did not finish within {seconds:g} s{effect}")


def _who(call: Call, arguments: Any) -> str:
    """Whose fair share a call counts against: the caller's with all slots, else the actor's or that of the agent
    that the client names, else nobody's ('')."""
    if call.caller is not None:
        return call.caller.id
    actor = getattr(arguments, "actor", None)
    return actor.id if actor else call.agent


async def _rechecked(recheck: Recheck, handling: Awaitable[Any]) -> Any:
    """Awaits a call that may wait; ends it as soon as ``recheck`` raises."""
    waiting = asyncio.ensure_future(handling)
    try:
        while not (await asyncio.wait((waiting,), timeout=LOOK_SECONDS))[0]:
            await recheck()
        return waiting.result()
    except asyncio.CancelledError as cancelled:
        waiting.cancel(*cancelled.args)
        raise
    finally:
        if not waiting.done():
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def _outcome(failure: ToolFailure) -> str:
    if failure.code == "VALIDATION_ERROR":
        return "invalid"
    return "internal" if failure.code == "INTERNAL_ERROR" else _OUTCOMES[failure.kind]


def _defect(call: Call) -> ToolFailure:
    where = f" (request {call.request_id})" if call.request_id else ""
    return ToolFailure("INTERNAL_ERROR", f"a defect of the coordinator stopped this call{where}")


def _done(tool: Tool, call: Call, result: Any) -> Done:
    if type(result) is Reply:
        return _replied(result)
    if tool.makes is None:
        return Done(to_json(result), False)
    path = tool.makes(result)
    link = {"name": path, "uri": document_uri(call.project, path), "mimeType": "application/json"}
    return Done(to_json(result), False, link={**link, "type": "resource_link"})


def _replied(reply: Reply, retry_after: int | None = None) -> Done:
    body = b"" if reply.structured is None else to_json(reply.structured)
    return Done(body, reply.is_error, retry_after, reply.text, reply.indented, reply.meta, blocks=reply.blocks)


def _failed(tool: Tool, failure: ToolFailure) -> Done:
    retry_after = None
    if failure.kind == "shedding":
        retry_after = max(1, math.ceil((failure.retry_after_ms or 1000) / 1000))
    if tool.refusal is not None:
        return msgspec.structs.replace(_replied(tool.refusal(failure), retry_after), code=failure.code)
    return Done(to_json(failure.body()), True, retry_after, code=failure.code)
