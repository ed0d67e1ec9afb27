"""What the audit of a project finds."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Difference(NamedTuple):
    """A difference from the items."""

    key: str
    """The key it was found at, without the project's prefix."""
    problem: str


class AuditReport(msgspec.Struct):
    items: int = 0
    """How many items it has checked."""
    terminal: int = 0
    """How many of these are in the role terminal."""
    edges: int = 0
    """How many dependencies it has checked."""
    claims: int = 0
    """How many items had a claim, live or lapsed."""
    counters_judged: bool = True
    """False: the project changed during the audit, so the counters over all of it could not be checked."""
    restless: int = 0
    """How many subjects changed at every attempt to read them, and were not checked."""
    differences: list[Difference] = []

    @property
    def unjudged(self) -> list[str]:
        """Incomplete checks, as sentences."""
        told = []
        if not self.counters_judged:
            told.append("the project changed meanwhile, so the counters of expired claims were not checked")
        if self.restless:
            told.append(f"{self.restless} subjects changed at every read and were not checked")
        return told
