"""The inbox: all that waits for a person in a project, in one list.

Four toolsets have such things: approvals of the gateway, gates of flows, open checkpoints of sessions, and questions of
agents about items. Each is read a page at a time, by when it began to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET

from coordinator.store import Store, keys
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows import WaitingGate, administers, waiting_gates
from coordinator.toolsets.gateway import Decisions, OpenApproval, Principal
from coordinator.toolsets.items import OpenQuestion, count_questions, open_questions
from coordinator.toolsets.sessions import SessionRow, count_open, list_sessions

Kind = Literal["approval", "gate", "checkpoint", "question"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TOOLSET: Mapping[Kind, str] = {"approval": "gateway", "gate": "flows", "checkpoint": "sessions", "question": "items"}
"""Whose rights decide who may see each kind."""
MOST = 50
_COUNTED = 100


class Waiting(NamedTuple):
    kind: Kind
    id: str
    """Of the approval, the gate's step, the session, or the item (32 hex digits)."""
    title: str
    """The workflow, the gate's name, the checkpoint, or the item's title."""
    asked_by: str
    """Who asks; empty: not known."""
    whom: str
    """The queue of an approval, or the role that a gate requires; empty: anybody."""
    since: int
    """Since when it waits, in ms of the store's clock."""
    refusal: str
    """Why this caller may not answer; empty: they may, as far as that can be known before."""
    detail: OpenApproval | WaitingGate | SessionRow | OpenQuestion


class Inbox(NamedTuple):
    """A page of each kind."""

    now: int
    """The store's time in ms; 0: nothing was read."""
    rows: list[Waiting]
    """Of all kinds that were read, the last one first."""
    next: dict[Kind, str]
    """Where the next page begins, of the kinds that have one."""


async def read_inbox(
    store: Store,
    project: str,
    decisions: Decisions,
    caller: Caller | None,
    *,
    kinds: Collection[Kind] = KINDS,
    after: Mapping[Kind, str] = {},
    limit: int = MOST,
) -> Inbox:
    """What waits for a person in a project. All kinds are read at the same time, in two round trips.

    Args:
        caller: whose right to answer is shown; gates of flows that they may not see are left out.
        after: ``Inbox.next`` of the page before, by kind; then only kinds that are in it are to be read.
        limit: at most so many of each kind.
    """
    wanted = [kind for kind in KINDS if kind in kinds]
    limit = max(1, min(limit, MOST))
    readers: dict[Kind, Callable[..., Awaitable[Any]]] = {
        "approval": partial(decisions.open, project, Principal.of(caller)),
        "gate": partial(waiting_gates, store, project, caller),
        "checkpoint": partial(list_sessions, store, project, only_open=True),
        "question": partial(open_questions, store, project),
    }
    pages = await asyncio.gather(*(readers[kind](after=after.get(kind, ""), limit=limit) for kind in wanted))
    rows = [_OF[kind](row) for kind, page in zip(wanted, pages, strict=True) for row in page.rows]
    rows.sort(key=lambda row: (-row.since, row.kind, row.id))
    more = {kind: page.next for kind, page in zip(wanted, pages, strict=True) if page.next}
    return Inbox(max((page.now for page in pages), default=0), rows, more)


async def count_waiting(
    store: Store, project: str, caller: Caller | None, *, kinds: Collection[Kind] = KINDS
) -> dict[Kind, int]:
    """How many of each kind wait for a person, without reading them: one round trip, as a rule.

    Of questions, and of gates for a caller who does not administer flows, 100 at most are counted.

    Raises ToolFailure as ``Store.run`` says.
    """

    async def approvals() -> int:
        return int(await store.command("ZCARD", keys.gate_asked.key(project)))

    async def gates() -> int:
        if administers(caller):
            return int(await store.command("ZCARD", keys.step_gates.key(project)))
        return len((await waiting_gates(store, project, caller, limit=_COUNTED)).rows)

    async def checkpoints() -> int:
        return await count_open(store, project)

    async def questions() -> int:
        return await count_questions(store, project)

    counts = {"approval": approvals, "gate": gates, "checkpoint": checkpoints, "question": questions}
    wanted = [kind for kind in KINDS if kind in kinds]
    return dict(zip(wanted, await asyncio.gather(*(counts[kind]() for kind in wanted)), strict=True))


def _of_approval(row: OpenApproval) -> Waiting:
    title = row.title or row.definition
    return Waiting("approval", row.id, title, row.requester, row.queue, row.asked_at, row.refusal, row)


def _of_gate(row: WaitingGate) -> Waiting:
    refusal = "" if row.may_release else f"The role {row.role!r} is required."
    return Waiting("gate", str(row.step), row.name, row.creator, row.role, row.since, refusal, row)


def _of_session(row: SessionRow) -> Waiting:
    return Waiting("checkpoint", row.id, row.checkpoint, row.agent, "", row.yielded_at, "", row)


def _of_question(row: OpenQuestion) -> Waiting:
    asked_by = "" if row.actor is UNSET else row.actor.id
    return Waiting("question", row.item, row.title, asked_by, "", row.asked_at, "", row)


_OF: Mapping[Kind, Callable[[Any], Waiting]] = {
    "approval": _of_approval,
    "gate": _of_gate,
    "checkpoint": _of_session,
    "question": _of_question,
}
