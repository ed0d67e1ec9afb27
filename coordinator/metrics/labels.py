"""The labels of metrics. Their values are bounded: they are listed, or an open set with a limit."""

from __future__ import annotations

from dataclasses import dataclass

OTHER = "other"
"""The label value in place of all that a label does not allow, or that is beyond its limit."""


@dataclass(frozen=True, slots=True)
class Label:
    """One dimension of a metric.

    Args:
        name: as in the exposition.
        values: the allowed values; empty for an open set.
        limit: how many distinct values an open set may have.
    """

    name: str
    values: tuple[str, ...] = ()
    limit: int = 0


SLOT = Label("slot", limit=130)
"""The process, by its place on its host. No call names it: a process records under its own."""
