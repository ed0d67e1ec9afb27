"""What people see of sessions and answer in them, in the console: by id, without a token of the session."""

from __future__ import annotations

import msgspec

from coordinator.definitions import Checkpoint
from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.sessions.contract.arguments import Arguments, BySession, RespondCheckpoint
from coordinator.toolsets.sessions.contract.results import Settled
from coordinator.toolsets.sessions.rules import answers
from coordinator.toolsets.sessions.rules.answers import Resolution
from coordinator.toolsets.sessions.rules.tokens import SID, Payload
from coordinator.toolsets.sessions.store.listing import SessionRow, SessionView, look
from coordinator.toolsets.sessions.store.sessions import SessionState, StatusDetail
from coordinator.toolsets.sessions.tools.backend import Backend
from coordinator.toolsets.sessions.tools.checkpoints import Checkpoints, settled
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Criticality, Tool

EVENTS = 50
"""Of a page of the trace."""


class AnswerCheckpoint(Arguments, kw_only=True):
    """One of the last three says how."""

    session_id: str
    yielded_at: int
    """Since when the checkpoint waits that was shown, in ms of the store's clock."""
    option_id: str | None = None
    auto_advance: bool = False
    condition_not_met: bool = False
    request_id: str | None = msgspec.field(name="requestId", default=None)
    """Of a click. A checkpoint is answered once in any case, and the same answer again by the same person is none."""


class ReadSession(BySession, kw_only=True):
    """Which session, and which page of its trace."""

    before: int = -1
    """The index of the event after the page; -1: the last page."""


class SeenSession(msgspec.Struct):
    """A session as people see it."""

    view: SessionView
    title: str
    """Of the workflow; empty: it is not defined any more."""
    activities: list[tuple[str, str]]
    """Those of the workflow, as id and name, in the order of its definition."""
    definition: Checkpoint | None
    """That of the open checkpoint; None: there is none (any more)."""

    @property
    def row(self) -> SessionRow:
        """What lists show of it."""
        return self.view.row


class People:
    """Handlers of what only the console calls."""

    def __init__(self, backend: Backend, checkpoints: Checkpoints, store: Store) -> None:
        self._backend = backend
        self._checkpoints = checkpoints
        self._store = store

    async def session(self, call: Call, args: ReadSession) -> SeenSession:
        """A session, with its answers and a page of its trace."""
        view = await look(self._store, call.project, args.session_id, before=args.before, limit=EVENTS)
        if view is None:
            raise _unknown()
        workflow = self._backend.current.workflows.get(view.row.workflow)
        if workflow is None:
            return SeenSession(view, "", [], None)
        stands = workflow.activity(view.row.activity)
        definition = stands.checkpoint(view.row.checkpoint) if stands is not None else None
        activities = [(key, one.activity.name) for key, one in workflow.activities.items()]
        return SeenSession(view, workflow.workflow.title, activities, definition)

    async def answer(self, call: Call, args: AnswerCheckpoint) -> Settled:
        """Answers the checkpoint that was shown, as the person who calls.

        Raises:
            ToolFailure: it is not open any more: says who has answered it, and when; or it cannot be answered so.
        """
        who = call.caller.id if call.caller is not None else ""
        state, detail = await self._seen(call.project, args.session_id)
        if state.pending and detail.yielded_at == args.yielded_at:
            # In the present order of the session: as a handle of this yield, and of none that comes later.
            payload = Payload(
                wf=detail.workflow, act=state.act, skill="", cond=state.cond, v="", seq=state.seq, ts=0,
                sid=args.session_id, aid=who, bcp=state.pending,
            )  # fmt: skip
            meant = RespondCheckpoint(
                option_id=args.option_id,
                auto_advance=args.auto_advance or None,
                condition_not_met=args.condition_not_met or None,
            )
            try:
                return await self._checkpoints.answer(call.project, payload, meant)
            except ToolFailure as failure:
                if failure.code != "checkpoint_closed":
                    raise
            state, detail = await self._seen(call.project, args.session_id)
        if not detail.last:
            raise ToolFailure("checkpoint_closed", "The checkpoint is not open any more.")
        last = answers.decode(detail.last)
        answer = last.given
        if answer.agent == who and last.at >= args.yielded_at and answer.option == (args.option_id or ""):
            again = Resolution("option_id" if answer.option else "condition_not_met", answer.option, answer.effect)
            return settled(Settled(checkpoint_id=answer.checkpoint, resolved=True), again)
        how = f"with {answer.option!r}" if answer.option else "as one whose condition does not hold"
        raise ToolFailure(
            "checkpoint_closed", f"{answer.agent} has answered {answer.checkpoint!r} {how} at {iso(last.at)}."
        )

    async def _seen(self, project: str, session: str) -> tuple[SessionState, StatusDetail]:
        if not SID.fullmatch(session):
            raise _unknown()
        try:
            state = await self._backend.store.seen(project, session)
        except ToolFailure as failure:
            if failure.code != "invalid_session_token":
                raise
            raise _unknown() from None
        return state, state.details(StatusDetail)


def _unknown() -> ToolFailure:
    return ToolFailure("RESOURCE_NOT_FOUND", "session: no such session in this project")


def tools(backend: Backend, store: Store) -> tuple[Tool, ...]:
    """What only the console calls."""
    handle = People(backend, Checkpoints(backend), store)
    return (
        Tool("read_session", "", ReadSession, (), handle.session, read_only=True),
        Tool("respond_checkpoint", "", AnswerCheckpoint, (Settled,), handle.answer, criticality=Criticality.CRITICAL),
    )
