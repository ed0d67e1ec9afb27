"""start_session: begins a session, or joins that of a token or of a work item."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from msgspec import UNSET, structs

from coordinator.definitions import META, Library, LoadedWorkflow
from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.actor import Actor, checked
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.sessions.contract.arguments import MAX_AGENT, MAX_NAME, StartSession
from coordinator.toolsets.sessions.contract.results import Started, WorkflowHead, WorkItem
from coordinator.toolsets.sessions.rules import joining, tokens, trace, validation
from coordinator.toolsets.sessions.rules.tokens import Payload, Unreadable
from coordinator.toolsets.sessions.store.sessions import NO_CLAIM, BegunSession, BoundClaim, Joined, SessionState
from coordinator.toolsets.sessions.tools.backend import Backend, advanced, in_json, loaded, refuse
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_DESCRIPTION = (
    "Start or resume a session. Returns the token that every other call needs. agent_id alone: new session of the "
    "workflow meta. workflow_id: new session of that workflow; with parent_session_token a child of that session. "
    "session_token: goes on with an existing session, to resume it or to dispatch a worker into it. A token that does "
    "not verify leads to a new session, with recovered true; where callers are not authenticated and only its "
    "signature is wrong, its session is adopted, as kept here or else as stated. item_id: binds the session to a work "
    "item whose claim you hold. The session advances only under that claim. If the claim expires, whoever claims the "
    "item next resumes the session with the same item_id, with all checkpoints that were answered."
)
NO_TOKEN = Payload(wf="", act="", skill="", cond="", v="", seq=0, ts=0, sid="", aid="")
"""Replaces a missing token."""


class _Obtained(NamedTuple):
    """The session that a call returns, and how it was found or created."""

    payload: Payload
    warnings: list[str]
    origin: str = ""
    """inherited, adopted, recovered; empty for a fresh one."""
    item: WorkItem | None = None


class _Start(NamedTuple):
    """A call, with the data common to all ways of answering."""

    call: Call
    args: StartSession
    definitions: Library
    claim: BoundClaim
    """The claim to bind the session to."""


class Starts:
    """The handler of the tool that starts and joins sessions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def start_session(self, call: Call, args: StartSession) -> Reply:
        """Joins the session of a token or of a work item, or creates one."""
        _check(args)
        claim = await self._claimed(args)
        start = _Start(call, args, self._backend.current, claim)
        if args.session_token:
            obtained = await self._by_token(start, args.session_token)
        elif claim.item:
            obtained = await self._of_item(start, args.workflow_id or "")
        else:
            obtained = await self._fresh(start)
        workflow = loaded(start.definitions, obtained.payload.wf)
        token = tokens.encode(obtained.payload, await self._backend.signer(call.project))
        return _answer(obtained, workflow, token)

    async def _by_token(self, start: _Start, token: str) -> _Obtained:
        """The session of a token, or a new one if the token cannot be used."""
        try:
            return await self._go_on(start, await self._backend.decode(start.call.project, token), "")
        except Unreadable as error:
            reason = f"Invalid session token: {error.reason}"
            if error.reason != tokens.UNSIGNED or self._backend.authenticates:
                return await self._fresh(start, reason)
        try:
            stated = tokens.decode_unsigned(token)
        except Unreadable:
            return await self._fresh(start, reason)
        return await self._go_on(start, stated, reason)

    async def _go_on(self, start: _Start, stated: Payload, reason: str) -> _Obtained:
        """Joins the session of a token. ``reason`` says what was wrong with its signature; empty: nothing."""
        call, args, definitions, claim = start
        loaded(definitions, stated.wf)
        # Without a valid signature, only the id of a known session is used.
        payload = structs.replace(stated, aid="", skill="", seq=0) if reason else stated
        mismatch = [joining.other_agent(args.agent_id, payload.aid)] if payload.aid not in ("", args.agent_id) else []
        noted = trace.entry("start_session", 0, payload.act, args.agent_id, mismatch)
        try:
            state = await self._backend.store.join(
                call.project, payload, noted, payload.wf, args.agent_id, trace.ADOPTED if reason else "", claim
            )
        except ToolFailure as failure:
            if failure.code != "invalid_session_token":
                raise
            return await self._take_over(start, stated, reason)
        if state.outcome == "other":
            return await self._fresh(start, reason or tokens.UNKNOWN)
        if not claim.item:
            # With a claim, these outcomes mean that the session cannot be bound, which is raised below.
            refuse(state, payload)
        if state.outcome != "ok":
            raise _unbindable(state, claim, call.project)
        obtained = _joined(start, state, payload, "adopted" if reason else "inherited")
        if reason:
            return obtained._replace(warnings=[joining.adopted(reason)])
        return obtained._replace(warnings=mismatch + obtained.warnings)

    async def _take_over(self, start: _Start, stated: Payload, reason: str) -> _Obtained:
        """Adopts the unknown session that a token states; or creates a new one where adoption is not allowed."""
        call, args, _, claim = start
        why = reason or f"Invalid session token: {tokens.UNKNOWN}"
        if self._backend.authenticates or not tokens.complete(stated):
            return await self._fresh(start, why)
        new = structs.replace(stated, aid=args.agent_id, seq=stated.seq + 1)
        noted = trace.entry("start_session", 0, new.act, args.agent_id)
        state = await self._backend.store.start(call.project, new, noted, trace.ADOPTED, claim=claim, adopted=True)
        if state.outcome == "known":
            # Another call has just adopted it.
            return await self._go_on(start, stated, reason)
        if state.outcome != "ok":
            raise _unbindable(state, claim, call.project)
        return _made(start, state, new, [joining.taken_over(why)], "adopted")

    async def _of_item(self, start: _Start, workflow: str) -> _Obtained:
        """The open session of a work item and workflow ('' for any), or a new one that is bound to the item."""
        call, args, definitions, claim = start
        if workflow:
            loaded(definitions, workflow)
        noted = trace.entry("start_session", 0, "", args.agent_id)
        state = await self._backend.store.join(call.project, NO_TOKEN, noted, workflow, args.agent_id, claim=claim)
        if state.outcome == "which":
            return await self._of_item(start, state.details(str))
        if state.outcome == "none":
            return await self._fresh(start)
        if state.outcome != "ok":
            raise _unbindable(state, claim, call.project)
        return _joined(start, state, NO_TOKEN, "inherited")

    async def _fresh(self, start: _Start, reason: str = "") -> _Obtained:
        """Creates a session. ``reason`` says why the token of the call could not be used; empty: there was none."""
        workflow = loaded(start.definitions, start.args.workflow_id or META)
        state, new, warnings = await self._start(start, workflow, trace.RECOVERED if reason else "")
        if state.outcome == "exists":
            # Another call has just created one for the same item, workflow and claim.
            return await self._of_item(start, workflow.id)
        if state.outcome != "ok":
            raise _unbindable(state, start.claim, start.call.project)
        if reason:
            warnings = [joining.recovered(workflow.id, reason), *warnings]
        return _made(start, state, new, warnings, "recovered" if reason else "")

    async def _start(
        self, start: _Start, workflow: LoadedWorkflow, problem: str
    ) -> tuple[SessionState, Payload, list[str]]:
        """Stores a new session. Returns the state, the payload of its first token, and warnings about its parent."""
        call, args, _, claim = start
        new = structs.replace(NO_TOKEN, wf=workflow.id, v=workflow.version, sid=str(uuid4()), aid=args.agent_id)
        parent, warnings = None, []
        if args.parent_session_token and not args.session_token:
            try:
                above = await self._backend.decode(call.project, args.parent_session_token)
            except Unreadable as error:
                # A session without a parent is better than none.
                warnings.append(joining.orphaned(error.reason))
            else:
                parent = (above, trace.entry("start_session", 0, above.act, above.aid, [workflow.id]))
        noted = trace.entry("start_session", 0, "", args.agent_id)
        state = await self._backend.store.start(call.project, new, noted, problem, parent, claim)
        if state.outcome == "ok" and parent is not None:
            above = parent[0]
            if state.details(BegunSession).parent_known:
                new = structs.replace(new, psid=above.sid, pwf=above.wf, pact=above.act, pv=above.v)
            else:
                warnings.append(joining.orphaned(tokens.UNKNOWN))
        return state, new, warnings

    async def _claimed(self, args: StartSession) -> BoundClaim:
        """The claim to bind a session to. Raises as ``resolve_actor``."""
        if args.item_id is None:
            if args.fence_token is not None:
                raise invalid("fence_token", "goes with item_id")
            return NO_CLAIM
        item = joining.item_hex(args.item_id)
        actor = checked(args.actor if args.actor is not None else Actor(args.agent_id, "subagent"))
        return BoundClaim(item, (await self._backend.resolve_actor(actor)).id, args.fence_token or 0)


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Starts(backend)
    return (
        Tool("start_session", _DESCRIPTION, StartSession, (Started,), handle.start_session, criticality=_criticality),
    )


def _criticality(args: StartSession) -> Criticality:
    """Criticality: resuming a session finishes work and comes first; a new session is new work."""
    return Criticality.CRITICAL if args.session_token or args.item_id else Criticality.NORMAL


def _check(args: StartSession) -> None:
    if not args.agent_id.strip() or len(args.agent_id) > MAX_AGENT:
        raise invalid("agent_id", f"must be 1 to {MAX_AGENT} characters, not blank")
    if args.workflow_id is not None and not 1 <= len(args.workflow_id) <= MAX_NAME:
        raise invalid("workflow_id", f"must be 1 to {MAX_NAME} characters")


def _made(start: _Start, state: SessionState, new: Payload, warnings: list[str], origin: str) -> _Obtained:
    begun = state.details(BegunSession)
    claim = start.claim
    item = joining.work_item(claim.item, begun.fence, claim.actor, begun.expires, True) if claim.item else None
    return _Obtained(structs.replace(new, seq=state.seq, ts=state.now // 1000), warnings, origin, item)


def _joined(start: _Start, state: SessionState, shown: Payload, origin: str) -> _Obtained:
    """The joined session. Warns if it is at another activity than the caller's token."""
    joined = state.details(Joined)
    psid, pwf, pact, pv = joined.parent or (UNSET,) * 4
    payload = structs.replace(
        advanced(shown, state, act=state.act, cond=state.cond),
        wf=joined.workflow,
        v=joined.version,
        sid=joined.sid,
        aid=start.args.agent_id,
        psid=psid,
        pwf=pwf,
        pact=pact,
        pv=pv,
    )
    item = None
    if start.claim.item:
        item = joining.work_item(joined.item, joined.fence, start.claim.actor, joined.expires, True)
    warnings = []
    if shown.act != state.act and shown.sid:
        warnings.append(joining.moved_on(shown.act, state.act))
    return _Obtained(payload, warnings, origin, item)


def _unbindable(state: SessionState, claim: BoundClaim, project: str) -> ToolFailure:
    """Why a session cannot be bound to the item of a claim. Counts a fence that is not that of its present claim."""
    if claim.fence and state.outcome in ("held", "stale_fence"):
        count_conflict("stale_fence", project, claim.item)
    if state.outcome == "elsewhere":
        return ToolFailure("VALIDATION_ERROR", "item_id: the session is bound to another work item")
    if state.outcome == "exists":
        return ToolFailure(
            "VALIDATION_ERROR",
            "item_id: the work item has another open session of this workflow; leave session_token out to resume it",
        )
    return joining.cannot_bind(state.outcome, claim.actor, state.details(int) if state.outcome == "held" else 0)


def _answer(obtained: _Obtained, workflow: LoadedWorkflow, token: str) -> Reply:
    definition = workflow.workflow
    result = Started(
        workflow=WorkflowHead(
            id=workflow.id, version=workflow.version, title=definition.title, description=definition.description
        ),
        session_token=token,
    )
    if obtained.origin in ("inherited", "adopted"):
        result.inherited = True
    if obtained.origin == "adopted":
        result.adopted = True
    if obtained.origin == "recovered":
        result.recovered = True
    if obtained.warnings:
        result.warning = " ".join(obtained.warnings)
    if obtained.item is not None:
        result.work_item = obtained.item
    meta: dict[str, object] = {"session_token": token}
    if obtained.warnings:
        meta["validation"] = validation.validation(obtained.warnings)
    return in_json(result, meta)
