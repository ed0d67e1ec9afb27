"""Sessions as people see them: lists, and one with its answers and its trace. Nothing here changes a session."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from coordinator.store import Script, Store, keys
from coordinator.toolsets.pages import stream_entry
from coordinator.toolsets.sessions.contract.results import TraceEvent
from coordinator.toolsets.sessions.rules import answers, trace
from coordinator.toolsets.sessions.rules.answers import KeptAnswer
from coordinator.toolsets.sessions.rules.tokens import SID
from coordinator.toolsets.sessions.store.sessions import LIBRARY

MOST = 200
"""How many sessions a page has at most, and how many events."""
_MARK = 2**50
"""What is added to the times of sessions with an open checkpoint (``recent.lua``)."""


class SessionRow(msgspec.Struct, array_like=True, frozen=True):
    """A session in a list. Times are ms of the store's clock."""

    id: str
    workflow: str
    activity: str
    """Empty before the first one."""
    checkpoint: str
    """The open checkpoint; empty: none."""
    yielded_at: int
    """Since when it is open; 0: none is."""
    item: str
    """The bound work item, as 32 hex digits; empty: none."""
    holder: str
    """The actor whose claim on the item was shown; empty: no item is bound."""
    agent: str
    """The agent of the last call."""
    completed: bool
    parent: str
    """The session that started it; empty: none."""
    changed_at: int
    """When it last changed. Calls that only read count to within a fiftieth of the time that sessions are kept."""


class SessionPage(NamedTuple):
    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[SessionRow]


class AnsweredCheckpoint(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint that was answered, as long as it is kept: the last 1,000 of the project are."""

    session: str
    workflow: str
    activity: str
    checkpoint: str
    asked_by: str
    """The agent of the call before."""
    how: str
    """``option_id``, ``auto_advance`` or ``condition_not_met``."""
    option: str
    """Empty if the checkpoint was dismissed."""
    by: str
    via: str
    """``client``: an agent's client was asked, and gave the answer; empty: by a call of its own."""
    entry: str
    """The page after it begins there (``after``)."""
    at: int


class AnsweredPage(NamedTuple):
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[AnsweredCheckpoint]


class SessionView(NamedTuple):
    """A session with its answers, and a page of its trace."""

    now: int
    row: SessionRow
    version: str
    """Of the workflow's definition."""
    left: list[str]
    """The activities that it has left, in order."""
    answers: list[KeptAnswer]
    """Answered checkpoints, in order of their answers; of a checkpoint that was asked again, the last answer."""
    oldest: int
    """The index of the first event that is kept; older ones were cut off."""
    first: int
    """The index of the first event of the page. The page before this one ends there (``before``)."""
    past: int
    """The index past the last event of the session."""
    events: list[TraceEvent]
    """The calls of the page, oldest first."""


class _View(msgspec.Struct, array_like=True, frozen=True):
    now: int
    row: SessionRow
    version: str
    left: list[str]
    answers: list[str]
    oldest: int
    first: int
    past: int
    events: list[str]


_LIST = Script(LIBRARY, "list_sessions", SessionPage)
_ANSWERED = Script(LIBRARY, "list_answers", AnsweredPage)
_OF_ITEM = Script(LIBRARY, "sessions_of_item", SessionPage)
_LOOK: Script[Any] = Script(LIBRARY, "look_session")
_view = msgspec.msgpack.Decoder(_View).decode


async def list_sessions(
    store: Store, project: str, *, only_open: bool = False, after: str = "", limit: int = 50
) -> SessionPage:
    """Sessions by their last change, the last one first. One round trip.

    Args:
        only_open: only those with an open checkpoint.
        after: ``SessionPage.next`` of the page before. A session that changes meanwhile moves to the first page.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_LIST, project, int(only_open), after, max(1, min(limit, MOST)))


async def count_open(store: Store, project: str) -> int:
    """How many sessions have an open checkpoint; some that expired lately may be among them. Raises as
    ``list_sessions``."""
    return int(await store.command("ZCOUNT", keys.session_index.key(project), _MARK, "+inf"))


async def answered_checkpoints(store: Store, project: str, *, after: str = "", limit: int = 50) -> AnsweredPage:
    """Checkpoints that were answered, the last answer first. One round trip.

    Args:
        after: ``AnsweredPage.next`` of the page before, or ``AnsweredCheckpoint.entry``.
        limit: at most so many, and ``MOST``.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed ``after``; and as ``Store.run`` says.
    """
    return await store.run(_ANSWERED, project, stream_entry(after, "after"), max(1, min(limit, MOST)))


async def sessions_of_item(store: Store, project: str, item: str) -> list[SessionRow]:
    """The sessions that are bound to a work item (32 hex digits), one per workflow, the last changed one first. One
    round trip; raises as ``list_sessions``."""
    return (await store.run(_OF_ITEM, project, item)).rows


async def look(store: Store, project: str, session: str, *, before: int = -1, limit: int = 50) -> SessionView | None:
    """A session with its answers and a page of its trace; None: there is none, or it has expired. One round trip.

    Args:
        before: the index of the event after the page (``SessionView.first`` of the page after); -1: the last page.
        limit: at most so many events, and ``MOST``.

    Raises ToolFailure as ``Store.run`` says.
    """
    if not SID.fullmatch(session):
        return None  # an id becomes part of a key, so its form is checked
    reply = await store.run(_LOOK, project, session, before, max(1, min(limit, MOST)))
    if len(reply) < 2:
        return None
    view = _view(reply)
    row = view.row
    kept = sorted(map(answers.decode, view.answers), key=lambda answer: answer.order)
    events = trace.events(row.id, row.workflow, row.parent, view.first, view.events)
    return SessionView(view.now, row, view.version, view.left, kept, view.oldest, view.first, view.past, events)
