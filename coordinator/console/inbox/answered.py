"""The history of the inbox: what people were asked in a project and was answered, in one list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET

from coordinator.console.inbox.waiting import KINDS, Kind
from coordinator.errors import invalid
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows import ReleasedGate, released_gates
from coordinator.toolsets.gateway import Decisions, ListedApproval
from coordinator.toolsets.items import AnsweredQuestion, answered_questions
from coordinator.toolsets.sessions import AnsweredCheckpoint, answered_checkpoints

MOST = 50
_POSITION = re.compile(r"(?:(\d{1,16})[-/]\w{1,80})?")


class PastAnswer(NamedTuple):
    kind: Kind
    id: str
    """What it is called: ids of the approval, of flow and step, of the session, or of the item (32 hex digits)."""
    title: str
    by: str
    """Who has answered; empty: nobody, it was withdrawn; or somebody who is not known."""
    what: str
    asked_by: str
    """Empty: not known."""
    via: str
    """``client``: an agent's client was asked, and gave the answer; empty: by a call of its own."""
    at: int
    """In ms of the store's clock."""
    position: str
    """Where what comes after it begins, among those of its kind."""


class History(NamedTuple):
    rows: list[PastAnswer]
    """The last answer first."""
    next: str
    """Where the next page begins; empty: this is the last one."""


async def read_history(
    store: Store,
    project: str,
    decisions: Decisions,
    caller: Caller | None,
    *,
    kinds: Collection[Kind] = KINDS,
    after: str = "",
    limit: int = MOST,
) -> History:
    """What was answered, of all kinds in one order. All kinds are read at the same time, in two round trips.

    Args:
        caller: gates of flows that they may not see are left out.
        after: ``History.next`` of the page before.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.
    """
    begins = _positions(after) if after else dict.fromkeys(KINDS, "")
    wanted = [kind for kind in KINDS if kind in kinds and kind in begins]
    limit = max(1, min(limit, MOST))
    readers: dict[Kind, Callable[..., Awaitable[Any]]] = {
        "approval": partial(decisions.closed, project),
        "gate": partial(released_gates, store, project, caller),
        "checkpoint": partial(answered_checkpoints, store, project),
        "question": partial(answered_questions, store, project),
    }
    replies = await asyncio.gather(*(readers[kind](after=begins[kind], limit=limit) for kind in wanted))
    pages = {kind: _Page(page.next, [*map(_OF[kind], page.rows)]) for kind, page in zip(wanted, replies, strict=True)}
    # After a page of which some are left out, there may be later answers than the others have.
    known = max((_time(page.next) for page in pages.values() if page.next and len(page.rows) < limit), default=0)
    rows = [row for page in pages.values() for row in page.rows if row.at >= known]
    rows = sorted(rows, key=lambda row: (-row.at, row.kind))[:limit]  # of one kind, they are in order
    following = dict[Kind, str]()
    for kind, page in pages.items():
        listed = [row for row in rows if row.kind == kind]
        if len(listed) < len(page.rows):
            following[kind] = listed[-1].position if listed else begins[kind]
        elif page.next:
            following[kind] = page.next
    return History(rows, ",".join(f"{kind}:{position}" for kind, position in following.items()))


class _Page(NamedTuple):
    next: str
    rows: list[PastAnswer]


def _positions(after: str) -> dict[Kind, str]:
    """Where each kind goes on; those that have ended are not there. Raises ToolFailure."""
    positions = dict[Kind, str]()
    for part in after.split(","):
        named, _, position = part.partition(":")
        kind = next((known_kind for known_kind in KINDS if known_kind == named), None)
        if kind is None or not _POSITION.fullmatch(position):
            raise invalid("after", "must be the `next` of an earlier page")
        positions[kind] = position
    return positions


def _time(position: str) -> int:
    return int(position.replace("/", "-").partition("-")[0])


def _of_approval(row: ListedApproval) -> PastAnswer:
    position = f"{row.answered_at}/{row.id}"
    what = row.answer or row.status
    return PastAnswer(
        "approval", row.id, row.definition, row.by, what, row.requester, row.via, row.answered_at, position
    )


def _of_gate(row: ReleasedGate) -> PastAnswer:
    name, title = f"{row.flow}:{row.step}", f"{row.flow_name}: {row.name}"
    return PastAnswer("gate", name, title, row.by, "released", row.creator, row.via, row.at, row.entry)


def _of_checkpoint(row: AnsweredCheckpoint) -> PastAnswer:
    title, what = f"{row.workflow}: {row.checkpoint}", row.option or row.how.replace("_", " ")
    return PastAnswer("checkpoint", row.session, title, row.by, what, row.asked_by, row.via, row.at, row.entry)


def _of_question(row: AnsweredQuestion) -> PastAnswer:
    by, asker = ("" if actor is UNSET else actor.id for actor in (row.by, row.asked_by))
    what = row.text or _GONE_ON.get(row.trigger, row.trigger)
    return PastAnswer("question", row.item, row.title or "a deleted item", by, what, asker, "", row.at, row.entry)


_GONE_ON = {"resume": "resumed", "cancel": "cancelled"}
"""What became of items without an answer in words."""
_OF: Mapping[Kind, Callable[[Any], PastAnswer]] = {
    "approval": _of_approval,
    "gate": _of_gate,
    "checkpoint": _of_checkpoint,
    "question": _of_question,
}
