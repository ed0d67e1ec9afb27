"""next_activity, get_workflow_status and get_trace: move a session, and show its state and history."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from time import perf_counter

import msgspec
from msgspec import UNSET, UnsetType, msgpack

from coordinator.definitions import TERMINALS, LoadedWorkflow
from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.sessions.contract import arguments as limits
from coordinator.toolsets.sessions.contract import results
from coordinator.toolsets.sessions.contract.arguments import WAITS_FOR, BySession, GetStatus, GetTrace, NextActivity
from coordinator.toolsets.sessions.rules import answers, joining, refusals, tokens, trace, validation
from coordinator.toolsets.sessions.rules.tokens import Payload, Unreadable
from coordinator.toolsets.sessions.store.sessions import Cut, SessionState, StatusDetail
from coordinator.toolsets.sessions.tools.backend import Backend, behind, drifted, in_json, loaded, meta, refuse
from coordinator.toolsets.sessions.tools.waits import WatchedSessions, met
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool
from coordinator.toolsets.waiting.reads import check, waited
from coordinator.toolsets.waiting.tasks import waiting_read

_NEXT = (
    "The orchestrator's tool: validates the transition to another activity, makes it, and returns the new token; in "
    "_meta also a trace_token for the calls since the last transition. get_activity then returns the definition. "
    "Report the steps of the activity that you leave in step_manifest. Warnings in _meta.validation do not prevent the "
    "transition; an unresolved checkpoint does. activity_id __terminal__ completes the session, from an activity that "
    "may be the last."
)
_STATUS = (
    "Whether the session is active, blocked by a checkpoint, or completed; its current and completed activities, the "
    "waiting and the last answered checkpoint, parent, and work item. Also works while a checkpoint waits: the "
    "returned token then is the checkpoint's handle. waitMs waits for waitFor."
)
_TRACE = (
    "The calls of the session with timing, errors and warnings: the last 5,000, or as many of the newest as fit into "
    "2 MB. With trace_tokens (up to 500, of this project): the calls recorded in these tokens, up to 1,000 each."
)
_MOST_ITEMS = f"must hold at most {limits.MAX_MANIFEST} entries"


class Moves:
    """Handlers of the tools that move a session and show its state and history."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watched = WatchedSessions(backend.store, backend.waiting)

    async def next_activity(self, call: Call, args: NextActivity) -> Reply:
        """Moves the session to another activity, with warnings."""
        began = perf_counter()
        _check(args)
        payload = await self._backend.opened(call.project, args.session_token)
        problem: ToolFailure | None = None
        warnings: list[str] = []
        name, ends = "", False
        try:
            workflow = loaded(self._backend.current, payload.wf)
            name, ends = _target(payload, args.activity_id, workflow)
            warnings = _warnings(payload, args, workflow)
        except ToolFailure as failure:
            problem = failure
        state = await self._backend.store.move(
            call.project,
            payload,
            trace.entry("next_activity", perf_counter() - began, payload.act, payload.aid, warnings),
            args.activity_id,
            args.transition_condition or "",
            _report(args),
            ends,
            problem.message if problem else "",
        )
        if state.outcome == "blocked":
            raise refusals.cannot_move(args.activity_id, state.pending, state.act)
        if state.outcome == "exists":
            raise refusals.replaced(args.activity_id)
        refuse(state, payload, problem)
        cut = state.details(Cut)
        token = await self._backend.token(call.project, payload, state, act=state.act, cond=state.cond)
        about = meta(token, warnings + behind(payload, cut.stood))
        if cut.events:
            signer = await self._backend.signer(call.project, trace.PURPOSE)
            about["trace_token"] = trace.trace_token(_segment(payload, args.activity_id, state, cut), signer)
        return in_json(results.Moved(activity_id=args.activity_id, name=name, session_token=token), about)

    async def get_workflow_status(self, call: Call, args: GetStatus) -> Reply:
        """Shows the state of the session; with waitMs, when it has come to one."""
        condition = check(args.wait_ms, args.wait_for, args.after, WAITS_FOR)
        payload = await self._backend.opened(call.project, args.session_token)
        state = await self._backend.store.status(call.project, payload, args.answered_checkpoints)
        refuse(state, payload)
        outcome = None
        if condition is not None:
            outcome = await self._backend.waiting.wait(
                call,
                self._watched.source,
                payload.sid,
                args.wait_ms or 0,
                changed=condition == "changed",
                after=args.after,
                met=met(condition),
            )
            state = await self._backend.store.status(call.project, payload, args.answered_checkpoints)
            refuse(state, payload)
        detail = state.details(StatusDetail)
        token = await self._backend.token(call.project, payload, state, act=state.act, cond=state.cond)
        workflow = self._backend.current.workflows.get(payload.wf)
        result = _status(state, detail, workflow, token)
        if outcome is not None:
            result.waited = waited(outcome)
        return in_json(result, {"session_token": token})

    async def session(self, call: Call, args: BySession) -> Reply:
        """The state of a session for those who have no token of it, and get none."""
        try:
            state = await self._backend.store.seen(call.project, args.session_id)
        except ToolFailure as failure:
            if failure.code != "invalid_session_token":
                raise
            raise ToolFailure("RESOURCE_NOT_FOUND", "session: no such session in this project") from None
        detail = state.details(StatusDetail)
        workflow = self._backend.current.workflows.get(detail.workflow)
        status = msgspec.to_builtins(_status(state, detail, workflow, ""))
        del status["session_token"]
        if "work_item" in status:
            # Who has the token of a session sees its claim, others only that there is one.
            status["work_item"] = {name: status["work_item"][name] for name in ("item_id", "claim_live")}
        return Reply(structured=status)

    async def get_trace(self, call: Call, args: GetTrace) -> Reply:
        """The calls of the session, or those in trace tokens."""
        trace_tokens = args.trace_tokens or []
        if len(trace_tokens) > trace.MAX_TRACE_TOKENS:
            raise invalid("trace_tokens", f"must hold at most {trace.MAX_TRACE_TOKENS} tokens")
        payload = await self._backend.opened(call.project, args.session_token)
        state = await self._backend.store.trace(call.project, payload, not trace_tokens)
        if state.outcome == "blocked":
            raise refusals.blocked(state.pending, state.act)
        refuse(state, payload)
        token = await self._backend.token(call.project, payload, state)
        errors: list[str] = []
        if trace_tokens:
            events, errors = await self._carried(call.project, trace_tokens)
        else:
            first, kept = state.details(tuple[int, list[str]])
            events = trace.events(payload.sid, payload.wf, payload.psid or "", first, kept)
        result = results.Trace(
            trace_id=payload.sid,
            source="tokens" if trace_tokens else "memory",
            tracing_enabled=UNSET if trace_tokens else True,
            event_count=len(events),
            events=events,
            session_token=token,
            token_errors=errors or UNSET,
        )
        warnings = drifted(self._backend.current, payload) + behind(payload, state.act)
        return in_json(result, meta(token, warnings))

    async def _carried(self, project: str, trace_tokens: list[str]) -> tuple[list[results.TraceEvent], list[str]]:
        """The calls in trace tokens, and the errors of unreadable ones."""
        events: list[results.TraceEvent] = []
        errors: list[str] = []
        for token in trace_tokens:
            try:
                events += (await self._backend.segment(project, token)).events()
            except Unreadable as error:
                errors.append(error.reason)
        return events, errors


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Moves(backend)
    return (
        Tool(
            "next_activity",
            _NEXT,
            NextActivity,
            (results.Moved,),
            handle.next_activity,
            criticality=Criticality.CRITICAL,
        ),
        waiting_read(
            Tool(
                "get_workflow_status",
                _STATUS,
                GetStatus,
                (results.Status,),
                handle.get_workflow_status,
            ),
            lambda args: f"sessions/{tokens.decode_unsigned(args.session_token).sid}",
        ),
        Tool(
            "get_trace",
            _TRACE,
            GetTrace,
            (results.Trace,),
            handle.get_trace,
            read_only=True,
            criticality=Criticality.SHEDDABLE,
        ),
    )


def _check(args: NextActivity) -> None:
    for field, entries in (("step_manifest", args.step_manifest), ("activity_manifest", args.activity_manifest)):
        if entries is not None and len(entries) > limits.MAX_MANIFEST:
            raise invalid(field, _MOST_ITEMS)
    if len(args.transition_condition or "") > limits.MAX_CONDITION:
        raise invalid("transition_condition", f"must be at most {limits.MAX_CONDITION} characters")
    if not 1 <= len(args.activity_id) <= limits.MAX_NAME:
        raise invalid("activity_id", f"must be 1 to {limits.MAX_NAME} characters")


def _target(payload: Payload, target: str, workflow: LoadedWorkflow) -> tuple[str, bool]:
    """The name of the target activity, and whether it ends the session.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND.
    """
    activity = workflow.activity(target)
    if activity is not None:
        return activity.name, False
    if validation.ends(payload.act, target, workflow):
        return f"{workflow.workflow.title}: completed", True
    if target in TERMINALS:
        leaving = validation.exits(workflow, payload.act)
        raise refusals.no_end(target, payload.act, workflow.activities if leaving is None else leaving.targets)
    raise refusals.not_found("Activity", target, workflow.activities)


def _warnings(payload: Payload, args: NextActivity, workflow: LoadedWorkflow) -> list[str]:
    """All warnings about a transition, in the order of README.md, 'Warnings'."""
    warnings = [
        *validation.transition(payload.act, args.activity_id, workflow),
        *validation.drift(payload.v, workflow),
    ]
    if args.transition_condition is not None and payload.act:
        warnings += validation.condition(payload.act, args.activity_id, args.transition_condition, workflow)
    warnings += validation.step_manifest(payload.act, args.step_manifest, workflow)
    warnings += validation.activity_manifest(args.activity_manifest, workflow)
    return validation.bounded(warnings)


def _report(args: NextActivity) -> str:
    """A digest of the report on a transition: the same target with another report corrects it."""
    report = (args.transition_condition, args.step_manifest, args.activity_manifest)
    return blake2b(msgpack.encode(report), digest_size=8).hexdigest()


def _segment(payload: Payload, target: str, state: SessionState, cut: Cut) -> trace.Segment:
    """The content of a transition's trace token."""
    calls = [msgspec.Raw(event) for event in cut.events]
    return trace.Segment(payload.sid, payload.wf, payload.psid or "", target, cut.first, state.now // 1000, calls)


def _status(state: SessionState, detail: StatusDetail, workflow: LoadedWorkflow | None, token: str) -> results.Status:
    result = results.Status(
        status="blocked" if state.pending else "completed" if state.completed else "active",
        current_activity=state.act or "none",
        completed_activities=detail.left,
        workflow=results.WorkflowHead(id=detail.workflow)
        if workflow is None
        else results.WorkflowHead(id=workflow.id, version=workflow.version, title=workflow.workflow.title),
        session_token=token,
    )
    if detail.parent:
        session, parent, activity, version = detail.parent
        result.parent = results.Parent(session_id=session, workflow_id=parent, activity=activity, version=version)
    if detail.last:
        last = answers.decode(detail.last)
        result.last_checkpoint = results.LastCheckpoint(
            activity_id=last.given.activity,
            timestamp=last.at // 1000,
            checkpoint_id=last.given.checkpoint,
            resolved_option=last.given.option or UNSET,
            resumed=not detail.unresumed,
        )
    if state.pending:
        result.active_checkpoint = results.ActiveCheckpoint(
            activity_id=state.act, checkpoint_id=state.pending, timestamp=detail.yielded_at // 1000
        )
    result.answered_checkpoints = _answered(state, detail.answers, detail.visit, detail.unresumed)
    if detail.claim:
        item, fence, holder, expires, live = detail.claim
        result.work_item = joining.work_item(item, fence, holder, expires, live)
    return result


def _answered(
    state: SessionState, kept: Sequence[str], visit: int, unresumed: str
) -> list[results.Answered] | UnsetType:
    answers_given = sorted(((answers.decode(text), text) for text in kept), key=lambda answer: answer[0].at)
    return [
        results.Answered(
            activity_id=answer.given.activity,
            checkpoint_id=answer.given.checkpoint,
            how=answer.given.how,
            via=answer.given.via or UNSET,
            timestamp=answer.at // 1000,
            resolved_option=answer.given.option or UNSET,
            effect=answer.given.effect or UNSET,
            current_visit=answer.visit == visit and answer.given.activity == state.act,
            resumed=text != unresumed,
        )
        for answer, text in answers_given
    ] or UNSET
