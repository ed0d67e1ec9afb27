"""Questions of agents that nobody has answered yet, for operators."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UnsetType

from coordinator.store import Script, Store
from coordinator.toolsets.actor import ActorEcho, Verification, stored_actor, stored_verification
from coordinator.toolsets.items.store.base import LIBRARY

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
    """A page of questions."""

    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[OpenQuestion]


class _Row(NamedTuple):
    item: str
    title: str
    number: int
    text: str
    bytes: int
    actor: str
    verification: str
    asked_at: int


_LIST = Script(LIBRARY, "list_questions", tuple[int, str, list[_Row]])


async def open_questions(store: Store, project: str, *, after: str = "", limit: int = 50) -> QuestionPage:
    """Open questions, the last one first. One round trip.

    Args:
        after: ``QuestionPage.next`` of the page before.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.

    Raises ToolFailure as ``Store.run`` says.
    """
    now, position, rows = await store.run(_LIST, project, after, max(1, min(limit, MOST)), _TEXT_BYTES)
    return QuestionPage(now, position, [_question(row) for row in rows])


async def count_questions(store: Store, project: str) -> int:
    """How many questions are open, ``MOST`` at most; their texts are not read. One round trip.

    Raises ToolFailure as ``Store.run`` says.
    """
    _, _, rows = await store.run(_LIST, project, "", MOST, -1)
    return len(rows)


def _question(row: _Row) -> OpenQuestion:
    actor, verification = stored_actor(row.actor), stored_verification(row.verification)
    return OpenQuestion(*row[:5], actor, verification, row.asked_at)
