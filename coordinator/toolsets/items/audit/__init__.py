"""Audits a project: checks that all indexes and counters agree with its items.

Readiness, ranks, counts and claims are kept in indexes and counters beside the items, and changed in the same script as
their cause (``coordinator.toolsets.items``). ``audit`` recomputes them and reports every difference. It changes
nothing, except that it settles debts (``lua/changes/debts.lua``). It may run while the project is in use: it walks the
keys in slices (SCAN), and checks each key on a consistent snapshot. The counters of lapsed claims cover the whole
project, so they are checked only if nothing has changed meanwhile.

The rules are written a second time here on purpose: ``lua/layout/items.lua`` and its neighbours update indexes and
counters change by change; this package derives them only from the stored fields of items, whose letters are those of
``items.lua``. Nothing else in toolsets imports it, so that it stays a second opinion.

``run`` walks the keys (``reader``) and gives each to those who know its family: ``items``, ``notes``, ``agents``,
``ranked`` (the ranked index), ``dependencies`` and ``listings`` (all other indexes) say what is to be read of it and
judge what was read (``subject``). For items, they ask the rules: ``fields``, ``states`` (claims and classes),
``scopes``, ``bounds``, ``parents``, ``times``, ``resources`` and ``usage``. ``tally`` compares counters of the whole
project with the items, and ``report`` is what comes back.
"""

from coordinator.toolsets.items.audit.reader import SLICE
from coordinator.toolsets.items.audit.report import AuditReport, Difference
from coordinator.toolsets.items.audit.run import audit

__all__ = ["SLICE", "AuditReport", "Difference", "audit"]
