"""Findings of ``fleet doctor``, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from coordinator.metrics.conditions import CONDITIONS


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    verdict: Literal["ok", "note", "warns", "fails"]
    """note: worth knowing; warns: works, but not as well or as safely as it could; fails: does not, or loses data."""
    what: str
    said: str
    advice: str = ""
    alert: str = ""
    """The alert of Prometheus on what was found."""
    runbook: str = ""
    """The page about that alert."""


_SHOWN = 20


def some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def page_of(alert: str) -> str:
    """The runbook of an alert that a check tells of."""
    pages = {condition.alert: condition.page for condition in CONDITIONS}
    return f"deploy/runbooks/{pages.get(alert, f'{alert}.md')}"


def lines_of(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings as lines of text; advice and alert are on lines of their own."""
    for finding in findings:
        yield f"{finding.verdict:<6} {finding.what}: {finding.said}"
        if finding.advice:
            yield f"       {finding.advice}"
        if finding.alert:
            yield f"       alert {finding.alert}; runbook {finding.runbook}"
