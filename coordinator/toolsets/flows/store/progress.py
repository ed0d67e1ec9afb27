"""Workflows as people watch them: what has happened in them, and which of them somebody may see."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.contract.base import FlowStatus
from coordinator.toolsets.flows.rules.permissions import administers, may_read
from coordinator.toolsets.flows.rules.spec import Spec, unpack
from coordinator.toolsets.flows.store.flows import LIBRARY, FlowReads, FlowRow, StepRecord

_SLICE = 500
_SLICES = 4
MOST_EVENTS = 200
"""Of a workflow, that are listed."""
_LATE_MS = 1_000
"""The event of an end is recorded so soon after the time of the end."""


class Progress(NamedTuple):
    """A workflow, and how far it is."""

    row: FlowRow
    spec: Spec
    steps: dict[str, StepRecord]
    """Those that exist, by their keys in the definition; without long results."""


class FlowEvent(NamedTuple):
    """Something that has happened in a workflow."""

    entry: str
    """Its id in the project's stream."""
    kind: str
    """In the stream (``coordinator.feed.kinds``)."""
    step: str
    """The step's key in the definition; empty: it is about the workflow."""
    attempt: str
    """Of the step, if it is about one."""
    actor: str
    """Empty: nobody in particular."""
    reason: str
    """Why they did it; empty: they did not say."""

    @property
    def at(self) -> int:
        """When, in ms of the store's clock."""
        return int(self.entry.partition("-")[0])


_EVENTS = Script(LIBRARY, "flow_events", tuple[str, list[FlowEvent]])


async def read_progress(store: Store, project: str, caller: Caller | None, flow: int) -> Progress | None:
    """A workflow with its steps, in one read; None: there is none that the caller may see.

    Raises ToolFailure as ``Store.run`` says.
    """
    record = await FlowReads(store).outline(project, flow)
    if record is None:
        return None
    spec = unpack(record.spec)
    roles = {step.approver_role for step in spec.flow.values() if step.approver_role is not None}
    if not may_read(caller, record.row.creator, roles):
        return None
    return Progress(record.row, spec, {step.key: step for step in record.steps})


async def read_events(store: Store, project: str, progress: Progress) -> tuple[list[FlowEvent], bool]:
    """The last events of a workflow, the newest first, and whether these are all.

    It looks at a bounded part of the project's stream, which does not reach back for ever either.

    Raises ToolFailure as ``Store.run`` says.
    """
    row, before, all_events = progress.row, "+", list[FlowEvent]()
    if ended := row.completed_at or row.cancelled_at:
        # Steps that ran when it failed may have ended later.
        before = str(max(ended, *(step.completed_at or 0 for step in progress.steps.values())) + _LATE_MS)
    for _ in range(_SLICES):
        last, events = await store.run(_EVENTS, project, row.id, before, row.created_at, _SLICE)
        all_events += events
        if not last or len(all_events) >= MOST_EVENTS:
            break
        before = f"({last}"
    newest = all_events[:MOST_EVENTS]
    return newest, bool(newest) and newest[-1].kind == "flow_created"


class FlowPage(NamedTuple):
    """A page of workflows, the newest first."""

    rows: list[FlowRow]
    before: int
    """Where the next page begins; 0: this is the last one."""
    total: int | None
    """How many there are, from the newest on; None: no index knows."""


async def list_visible(
    store: Store,
    project: str,
    caller: Caller | None,
    *,
    creator: str = "",
    status: FlowStatus | None = None,
    name: str = "",
    before: int = 0,
    limit: int = 50,
) -> FlowPage:
    """Workflows that the caller has created, or may administer.

    Args:
        creator, status, name, before: as in ``FlowReads.list``; empty or 0: any.

    Raises ToolFailure as ``Store.run`` says.
    """
    reads = FlowReads(store)
    if caller is not None and not administers(caller):
        if creator not in ("", caller.id):
            return FlowPage([], 0, 0)
        creator = caller.id
    of = creator or None
    listed = await reads.list(project, limit=limit + 1, creator=of, status=status, name=name, before=before)
    rows = listed.rows[:limit]
    more = rows[-1].id if len(listed.rows) > limit else listed.before
    total = None if name else await reads.count(project, creator=of, status=status)
    return FlowPage(rows, more, total)
