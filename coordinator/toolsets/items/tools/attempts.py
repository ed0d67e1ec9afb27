"""Attempts on items, as results show them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from coordinator.toolsets.items.contract.attempts import Attempt, AttemptCounts, Attempts, HeldAttempt, HeldAttempts
from coordinator.toolsets.items.store.attempts import AttemptRecord, AttemptRow
from coordinator.toolsets.timestamp import iso


def attempts(record: AttemptRecord, most: int) -> Attempts | UnsetType:
    """The attempts on an item, without whose they were.

    Args:
        most: how many an item of its type may have.
    """
    if not _any(record):
        return UNSET
    return Attempts(**_counts(record, most), last=[Attempt(**_row(row)) for row in record.last])


def attempt_counts(record: AttemptRecord, most: int) -> AttemptCounts | UnsetType:
    """How many there were; absent if none counts. Arguments as for ``attempts``."""
    return AttemptCounts(**_counts(record, most)) if record.counted else UNSET


def held_attempts(record: AttemptRecord, most: int) -> HeldAttempts | UnsetType:
    """The same with whose they were, for results that show holders (README.md, 'Disclosure')."""
    if not _any(record):
        return UNSET
    return HeldAttempts(
        **_counts(record, most), last=[HeldAttempt(**_row(row), claimed_by=row.agent) for row in record.last]
    )


def _any(record: AttemptRecord) -> bool:
    return bool(record.last) or record.most is not False


def _counts(record: AttemptRecord, most: int) -> dict[str, Any]:
    return {
        "count": record.counted,
        "max": most if record.most is False else record.most,
        "not_before": iso(record.held_until) if record.held_until else UNSET,
    }


def _row(row: AttemptRow) -> dict[str, Any]:
    return {
        "began": iso(row.began),
        "until": iso(row.until),
        "ended": row.ended,
        "reason": row.reason or UNSET,
        "detail": row.detail or UNSET,
    }
