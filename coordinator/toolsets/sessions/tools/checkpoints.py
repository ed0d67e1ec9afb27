"""yield, resume, present and respond_checkpoint."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from msgspec import UNSET, structs

from coordinator.definitions import Checkpoint, Library
from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.questions import VIA_CLIENT, Question
from coordinator.toolsets.sessions.contract.arguments import (
    MAX_NAME,
    PresentCheckpoint,
    RespondCheckpoint,
    SessionOnly,
    YieldCheckpoint,
)
from coordinator.toolsets.sessions.contract.results import Responded, Resumed, Settled, Yielded
from coordinator.toolsets.sessions.metrics import CHECKPOINTS
from coordinator.toolsets.sessions.rules import answers, refusals, texts, tokens, trace
from coordinator.toolsets.sessions.rules.answers import GivenAnswer, Resolution
from coordinator.toolsets.sessions.rules.tokens import Payload
from coordinator.toolsets.sessions.store.sessions import Pending, SessionState
from coordinator.toolsets.sessions.tools.backend import (
    Backend,
    advanced,
    behind,
    drifted,
    in_json,
    in_text,
    loaded,
    meta,
    refuse,
)
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_YIELD = (
    "The worker's tool at a checkpoint: records that the session waits for an answer and returns a checkpoint_handle. "
    "Hand it to the orchestrator in a <checkpoint_yield> block and wait. Until the checkpoint is resolved nearly every "
    "other tool is refused."
)
_RESUME = (
    "The worker's tool after the orchestrator has resolved its checkpoint: returns the answer, and lets the session go "
    "on."
)
_PRESENT = (
    "The orchestrator's tool: returns a yielded checkpoint with its message, its options and their effects, and "
    "whether it is blocking and when it may be auto-advanced. Pass checkpoint_handle, or session_token of the session "
    "that waits."
)
_RESPOND = (
    "The orchestrator's tool: resolves a checkpoint, once. Present it to the user first. Give exactly one of: "
    "option_id (the user's choice, at least a few seconds after the yield), auto_advance (takes the default option; "
    "only if blocking is false and autoAdvanceMs have passed), condition_not_met (only if the checkpoint's condition "
    "does not hold). Returns the option's effect. Hand it to the worker, who then calls resume_checkpoint."
)
_YIELDED = (
    "Execution is paused at the checkpoint. Hand the checkpoint_handle to the orchestrator in a <checkpoint_yield> "
    "block and wait until it has been resolved, then call resume_checkpoint."
)
_ANSWERED = (
    "This checkpoint was answered before the session was taken over: do not ask again, go on with this answer. Only "
    "if it has to be asked once more, as in a loop, yield it with ask_again true."
)
_OPTION = "option"
"""The field of the form that is shown to the user."""
_NONE_YET = "none. Call next_activity first"
_RESUMED = "Checkpoint cleared. Go on with the next step, with the effects of the answer."


S = TypeVar("S", Settled, Responded, Resumed, Yielded)


class _Meant(NamedTuple):
    """The checkpoint that a call refers to."""

    token: Payload
    current: Library
    """The definitions that the call uses."""
    warnings: list[str]
    checkpoint: str
    """Empty: the token names none."""
    activity: str
    instance: str = ""
    """The seq of the checkpoint's handle; empty: that of the token itself."""


class Checkpoints:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def yield_checkpoint(self, call: Call, args: YieldCheckpoint) -> Reply:
        """Makes a checkpoint pending, or returns its earlier answer."""
        began = perf_counter()
        if len(args.checkpoint_id) > MAX_NAME:
            raise invalid("checkpoint_id", f"must be at most {MAX_NAME} characters")
        payload = await self._backend.opened(call.project, args.session_token)
        library = self._backend.current
        problem: ToolFailure | None = None
        try:
            _definition(library, payload.wf, payload.act, args.checkpoint_id)
        except ToolFailure as failure:
            problem = failure
        warnings = drifted(library, payload)
        state = await self._backend.store.yield_checkpoint(
            call.project,
            payload,
            trace.entry("yield_checkpoint", perf_counter() - began, payload.act, payload.aid, warnings),
            args.checkpoint_id,
            args.ask_again,
            problem.message if problem else "",
        )
        if state.outcome == "active":
            raise refusals.cannot_yield(args.checkpoint_id, state.pending)
        if state.outcome == "moved":
            raise refusals.moved_on(args.checkpoint_id, payload.act, state.act)
        refuse(state, payload, problem)
        if state.outcome == "answered":
            return _known(args.checkpoint_id, state, await self._backend.token(call.project, payload, state), warnings)
        pending = state.details(Pending)
        if pending.new:
            CHECKPOINTS.labels("yielded").inc()
        # The handle depends only on the yield, so a retry after a lost reply gets the same one.
        handle = structs.replace(
            advanced(payload, state, seq=pending.seq), bcp=args.checkpoint_id, ts=pending.at // 1000
        )
        token = tokens.encode(handle, await self._backend.signer(call.project))
        result = Yielded(status="yielded", checkpoint_id=args.checkpoint_id, checkpoint_handle=token, message=_YIELDED)
        return in_json(result, meta(token, warnings))

    async def resume_checkpoint(self, call: Call, args: SessionOnly) -> Reply:
        """Resumes the session after the answer."""
        began = perf_counter()
        payload = await self._backend.opened(call.project, args.session_token)
        warnings = drifted(self._backend.current, payload)
        noted = trace.entry("resume_checkpoint", perf_counter() - began, payload.act, payload.aid, warnings)
        state = await self._backend.store.resume(call.project, payload, noted)
        if state.outcome == "blocked":
            raise refusals.cannot_resume(state.pending)
        if state.outcome == "nothing":
            raise refusals.nothing_to_resume()
        refuse(state, payload)
        token = await self._backend.token(call.project, payload, state)
        answer = answers.decode(state.details(str)).given
        result = Resumed(status="resumed", message=_RESUMED, session_token=token, checkpoint_id=answer.checkpoint)
        return in_json(settled(result, answer), meta(token, warnings + behind(payload, state.act)))

    async def present_checkpoint(self, call: Call, args: PresentCheckpoint) -> Reply | Question:
        """The checkpoint, to be shown to the user; or the answer of the user, whom the client has asked."""
        answer = call.answer
        if answer is not None and answer.action == "accept":
            chosen = RespondCheckpoint(checkpoint_handle=answer.state, option_id=answer.content[_OPTION])
            return await self._respond(call, chosen, VIA_CLIENT)
        began = perf_counter()
        meant = await self._meant_by(call.project, args.checkpoint_handle, args.session_token)
        payload = meant.token
        while True:
            problem: ToolFailure | None = None
            definition: Checkpoint | None = None
            try:
                if meant.checkpoint:
                    definition = _asked(meant)
            except ToolFailure as failure:
                problem = failure
            noted = trace.entry("present_checkpoint", perf_counter() - began, payload.act, payload.aid, meant.warnings)
            state = await self._backend.store.present(
                call.project, payload, noted, meant.checkpoint, meant.instance, problem.message if problem else ""
            )
            if state.outcome != "pending":
                break
            meant = _pending(meant, state)
        _require_pending(state, meant)
        refuse(state, payload, problem)
        handle = args.checkpoint_handle or args.session_token or ""
        if meant.instance:
            handle = await self._backend.token(call.project, payload, state, act=state.act, cond=state.cond)
        # If it could not be found, the problem was raised above.
        found = cast("Checkpoint", definition)
        shown_as_text = in_text(texts.checkpoint(found, handle), meta(handle, meant.warnings))
        return _question(found, handle, shown_as_text) if call.can_ask and answer is None else shown_as_text

    async def respond_checkpoint(self, call: Call, args: RespondCheckpoint) -> Reply:
        """Answers a checkpoint, once."""
        return await self._respond(call, args)

    async def _respond(self, call: Call, args: RespondCheckpoint, via: str = "") -> Reply:
        meant = await self._meant_by(call.project, args.checkpoint_handle, args.session_token)
        meant, resolution, state = await self._settle(call.project, meant, args, via)
        token = await self._backend.token(call.project, meant.token, state, act=state.act, cond=state.cond)
        result = Responded(checkpoint_id=meant.checkpoint, resolved=True, checkpoint_handle=token)
        return in_json(settled(result, resolution), meta(token, meant.warnings))

    async def answer(self, project: str, payload: Payload, args: RespondCheckpoint) -> Settled:
        """Answers the checkpoint in a payload that needs no signature, because no caller has given it.

        Raises:
            ToolFailure: it cannot be answered so.
        """
        current = self._backend.current
        meant = _Meant(payload, current, drifted(current, payload), payload.checkpoint, payload.act)
        _, resolution, _ = await self._settle(project, meant, args, "")
        return settled(Settled(checkpoint_id=payload.checkpoint, resolved=True), resolution)

    async def _settle(
        self, project: str, meant: _Meant, args: RespondCheckpoint, via: str
    ) -> tuple[_Meant, Resolution, SessionState]:
        """Answers a checkpoint, once. Raises ToolFailure: it cannot be answered so."""
        began = perf_counter()
        payload = meant.token
        while True:
            resolution = _resolution(meant, args, self._backend.settings.workflows.min_checkpoint_response_seconds)
            answer = GivenAnswer(
                meant.checkpoint, meant.activity, resolution.how, resolution.option, payload.aid, resolution.effect, via
            )
            state = await self._backend.store.respond(
                project,
                payload,
                trace.entry("respond_checkpoint", perf_counter() - began, payload.act, payload.aid, meant.warnings),
                meant.checkpoint,
                meant.instance,
                answers.encode(answer),
                resolution,
            )
            if state.outcome != "pending":
                break
            meant = _pending(meant, state)
        if state.outcome in ("none", "closed"):
            CHECKPOINTS.labels("closed").inc()
        _require_pending(state, meant)
        if state.outcome == "early":
            CHECKPOINTS.labels("early").inc()
            raise answers.too_early(meant.checkpoint, resolution.how, state.details(int), resolution.least_ms)
        refuse(state, payload, resolution.problem or resolution.late)
        CHECKPOINTS.labels(resolution.how).inc()
        return meant, resolution, state

    async def _meant_by(self, project: str, handle: str | None, token: str | None) -> _Meant:
        """The checkpoint of a handle, or of the token of a blocked session.

        Raises:
            ToolFailure: VALIDATION_ERROR without either; ``invalid_session_token``.
        """
        text = handle or token
        if not text:
            raise answers.nothing_named()
        payload = await self._backend.opened(project, text)
        library = self._backend.current
        return _Meant(payload, library, drifted(library, payload), payload.checkpoint, payload.act)


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Checkpoints(backend)
    critical = Criticality.CRITICAL
    return (
        Tool("yield_checkpoint", _YIELD, YieldCheckpoint, (Yielded,), handle.yield_checkpoint, criticality=critical),
        Tool("resume_checkpoint", _RESUME, SessionOnly, (Resumed,), handle.resume_checkpoint, criticality=critical),
        Tool(
            "present_checkpoint", _PRESENT, PresentCheckpoint, (), handle.present_checkpoint, read_only=True, asks=True
        ),
        Tool(
            "respond_checkpoint",
            _RESPOND,
            RespondCheckpoint,
            (Responded,),
            handle.respond_checkpoint,
            criticality=critical,
        ),
    )


def settled(result: S, answer: Resolution | GivenAnswer) -> S:
    """Adds the answer to a result: the option and its effect, or that the checkpoint was dismissed."""
    result.resolved_option = answer.option or UNSET
    result.effect = answer.effect or UNSET
    result.dismissed = True if answer.how == "condition_not_met" else UNSET
    return result


def _question(checkpoint: Checkpoint, handle: str, otherwise: Reply) -> Question:
    """The question to the user, with the options to choose from."""
    options = [{"const": one.id, "title": one.label} for one in checkpoint.options]
    field: dict[str, Any] = {"type": "string", "title": checkpoint.name, "oneOf": options}
    if checkpoint.default_option is not UNSET and checkpoint.option(checkpoint.default_option) is not None:
        field["default"] = checkpoint.default_option
    described = [f"{one.label}: {one.description}" for one in checkpoint.options if one.description is not UNSET]
    message = "\n".join((checkpoint.message, *described))
    return Question(message=message, fields={_OPTION: field}, required=(_OPTION,), state=handle, otherwise=otherwise)


def _known(checkpoint: str, state: SessionState, token: str, warnings: list[str]) -> Reply:
    """The reply to a yield of a checkpoint that was answered before: the answer."""
    known = Yielded(status="answered", checkpoint_id=checkpoint, checkpoint_handle=token, message=_ANSWERED)
    return in_json(settled(known, answers.decode(state.details(str)).given), meta(token, warnings))


def _definition(library: Library, workflow: str, activity: str, checkpoint: str) -> Checkpoint:
    loaded_activity = loaded(library, workflow).activity(activity)
    definition = None if loaded_activity is None else loaded_activity.checkpoint(checkpoint)
    if definition is None:
        known = None if loaded_activity is None else (one.id for one in loaded_activity.checkpoints)
        raise refusals.not_found("Checkpoint", checkpoint, known, f" in activity {activity or _NONE_YET}")
    return definition


def _asked(meant: _Meant) -> Checkpoint:
    """The definition of a checkpoint that was yielded.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND, it was removed. Callers raise this only if the checkpoint is still pending.
    """
    try:
        return _definition(meant.current, meant.token.wf, meant.activity, meant.checkpoint)
    except ToolFailure as failure:
        hint = "It existed when it was yielded: have its definition restored, or begin again with start_session."
        raise ToolFailure(failure.code, f"{failure.message.removesuffix('?')}. {hint}") from None


def _pending(meant: _Meant, state: SessionState) -> _Meant:
    """The session's pending checkpoint, if the token itself does not name one."""
    return meant._replace(checkpoint=state.pending, activity=state.act, instance=str(state.details(int)))


def _require_pending(state: SessionState, meant: _Meant) -> None:
    if state.outcome == "none":
        raise refusals.no_checkpoint()
    if state.outcome == "closed":
        text = state.details(str)
        raise refusals.resolved(meant.checkpoint, _told(text) if text else "")


def _told(text: str) -> str:
    answer = answers.decode(text).given
    return f" with option '{answer.option}'" if answer.option else ", dismissed because its condition was not met"


def _resolution(meant: _Meant, args: RespondCheckpoint, least_seconds: int) -> Resolution:
    """How the checkpoint is answered, or the first problem."""
    how = answers.mode(args)
    if how is None:
        return Resolution("option_id", problem=answers.no_one_way())
    if not meant.checkpoint:
        return Resolution(how)
    try:
        definition = _asked(meant)
    except ToolFailure as failure:
        return Resolution(how, problem=failure)
    return answers.resolution(definition, how, args.option_id or "", least_seconds)
