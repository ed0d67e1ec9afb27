"""get_workflow_status with waitMs: what it waits for."""

from __future__ import annotations

from functools import partial

from coordinator.errors import ToolFailure
from coordinator.feed.subjects import Met, Reading
from coordinator.toolsets.sessions.store.sessions import SessionState, SessionStore, StatusDetail
from coordinator.toolsets.waiting.reads import WaitingReads, version


class WatchedSessions:
    """Sessions of any project; a key is a session's id."""

    def __init__(self, store: SessionStore, waiting: WaitingReads) -> None:
        self._store = store
        self.source = waiting.source("sessions", self._reading)

    async def _reading(self, project: str, key: str) -> Reading | None:
        try:
            state = await self._store.seen(project, key)
        except ToolFailure as failure:
            if failure.code != "invalid_session_token":
                raise
            return None
        found = state.details(StatusDetail)
        names: tuple[str, ...] = (key,)
        claim: list[object] = []
        if found.claim:
            item, fence, holder, _, live = found.claim
            # The end of its item's claim stops a session, and is an event of the item.
            names, claim = (key, item), [item, fence, holder, live]
        said = (state.act, state.pending, state.completed, found.left, found.last, found.unresumed, found.visit)
        return Reading(version(said, found.yielded_at, claim), False, names, facts=state)


def met(condition: str) -> Met:
    """Whether a session has ended or, for ``checkpoint``, waits for an answer."""
    return partial(_met, condition == "checkpoint")


def _met(checkpoint: bool, reading: Reading) -> bool:
    state: SessionState = reading.facts
    return state.completed or (checkpoint and bool(state.pending))
