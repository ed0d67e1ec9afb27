"""Questions of agents, for operators: those that nobody has answered yet, and those that somebody has."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import UnsetType

from coordinator.store import Script, Store
from coordinator.toolsets.actor import ActorEcho, Verification, stored_actor, stored_verification
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.pages import stream_entry

MOST = 100
"""How many questions a page has at most."""
_TEXT_BYTES = 20_000


class OpenQuestion(NamedTuple):
    """An item that an agent has blocked with a question (``work_ask``)."""

    item: str
    """Its UUID as 32 hex digits."""
    title: str
    number: int
    """The question is the note ``question-<number>``; its answer is to be the note ``answer-<number>``."""
    text: str
    """Empty if it has more than 20,000 bytes, or if the note was deleted."""
    bytes: int
    actor: ActorEcho | UnsetType
    verification: Verification | UnsetType
    asked_at: int
    """In ms of the store's clock."""


class QuestionPage(NamedTuple):
    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[OpenQuestion]


class _OpenRow(NamedTuple):
    """An ``OpenQuestion`` as it is stored."""

    item: str
    title: str
    number: int
    text: str
    bytes: int
    actor: str
    verification: str
    asked_at: int


class AnsweredQuestion(NamedTuple):
    """A question whose item has gone on, as long as it is kept: the last 1,000 of the project are."""

    item: str
    title: str
    """Empty: the item was deleted."""
    number: int
    trigger: str
    """``resume``, or ``cancel``."""
    text: str
    """The note ``answer-<number>`` as it is now; empty: there is none, or one of more than 20,000 bytes."""
    by: ActorEcho | UnsetType
    """The author of the answer, else who has let the item go on."""
    verification: Verification | UnsetType
    asked_by: ActorEcho | UnsetType
    at: int
    """In ms of the store's clock."""
    entry: str
    """The page after it begins there (``after``)."""


class AnsweredPage(NamedTuple):
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[AnsweredQuestion]


class _AnsweredRow(NamedTuple):
    """An ``AnsweredQuestion`` as it is stored; False: the item was deleted."""

    item: str
    number: int
    trigger: str
    actor: str
    verification: str
    entry: str
    at: int
    title: str | Literal[False]
    text: str
    asker: str


_LIST = Script(LIBRARY, "list_questions", tuple[int, str, list[_OpenRow]])
_ANSWERED = Script(LIBRARY, "list_answers", tuple[str, list[_AnsweredRow]])


async def open_questions(store: Store, project: str, *, after: str = "", limit: int = 50) -> QuestionPage:
    """Open questions, the last one first. One round trip.

    Args:
        after: ``QuestionPage.next`` of the page before.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.

    Raises ToolFailure as ``Store.run`` says.
    """
    now, position, rows = await store.run(_LIST, project, after, max(1, min(limit, MOST)), _TEXT_BYTES)
    return QuestionPage(now, position, [_question(row) for row in rows])


async def answered_questions(store: Store, project: str, *, after: str = "", limit: int = 50) -> AnsweredPage:
    """Answered questions, the last answer first. Arguments and errors as those of ``open_questions``;
    VALIDATION_ERROR for a malformed ``after``."""
    words = stream_entry(after, "after"), max(1, min(limit, MOST)), _TEXT_BYTES
    position, rows = await store.run(_ANSWERED, project, *words)
    return AnsweredPage(position, [_answered(row) for row in rows])


async def count_questions(store: Store, project: str) -> int:
    """How many questions are open, ``MOST`` at most; their texts are not read. One round trip.

    Raises ToolFailure as ``Store.run`` says.
    """
    _, _, rows = await store.run(_LIST, project, "", MOST, -1)
    return len(rows)


def _answered(row: _AnsweredRow) -> AnsweredQuestion:
    return AnsweredQuestion(
        row.item,
        row.title or "",
        row.number,
        row.trigger,
        row.text,
        stored_actor(row.actor),
        stored_verification(row.verification),
        stored_actor(row.asker),
        row.at,
        row.entry,
    )


def _question(row: _OpenRow) -> OpenQuestion:
    actor, verification = stored_actor(row.actor), stored_verification(row.verification)
    return OpenQuestion(*row[:5], actor, verification, row.asked_at)
