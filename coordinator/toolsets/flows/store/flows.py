"""Workflows in the store: creates, reads, lists, cancels, pauses and retries them, and releases their steps."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from coordinator.metrics.tracing import carried
from coordinator.steps.handoff import Priority
from coordinator.steps.metrics import RUNS_ENDED
from coordinator.steps.model import Plan
from coordinator.steps.results import MAX_RESULT_BYTES
from coordinator.steps.runs import RunStore
from coordinator.steps.store import LIBRARY as STEPS
from coordinator.store import Library, Script, Store, keys
from coordinator.store.idempotency import IdempotencyKey, recorded_reply
from coordinator.toolsets.flows.contract.base import FlowStatus, StepStatus
from coordinator.toolsets.flows.rules.planner import result_of_failed
from coordinator.toolsets.tool import COMPLETIONS_MOST, Completed

LIBRARY = Library("coordinator.toolsets.flows", uses=[STEPS])
MAX_READ_BYTES = 4 * 1024 * 1024
"""How many bytes of results one read of a flow returns; further results are left out and marked."""
_MOST_READS = 3
"""How often a read of a flow is tried if the flow changes meanwhile."""
PAGE = 100
MAX_PAGES = 200
"""The most pages of flows that one list scans."""

_STATUSES: dict[str, FlowStatus] = {"r": "running", "p": "paused", "c": "completed", "f": "failed", "x": "cancelled"}
_LETTERS = {status: letter for letter, status in _STATUSES.items()}
_OPEN: dict[str, StepStatus] = {
    "q": "ready",
    "h": "ready",
    "r": "running",
    "d": "pending",
    "g": "running",
    "p": "paused",
}
_ENDS: dict[str, StepStatus] = {"D": "done", "F": "failed", "X": "cancelled"}
_ROW_FIELDS = ("n", "s", "u", "t", "e", "x", "m")
"""Fields of a run's header, in the order of ``list_flows.lua``."""
_RESULT = 7
"""The index of the result in the row of a finished step: JSON, the length of a long result (if it was cut, of the
whole one), or False."""


class _Changed(NamedTuple):
    """What a call did to a workflow or a step; without a status: it is unknown."""

    done: bool | int = False
    """Whether this call did it; of a retry, how many steps were reopened."""
    status: str = ""
    """Before; of a cancelled workflow, now."""
    to_relay: bool = False
    """Whether the relay has work."""


_CREATE = Script(LIBRARY, "create_flow", tuple[int, bool])
_CANCEL = Script(LIBRARY, "cancel_flow", _Changed)
_RELEASE = Script(LIBRARY, "release_step", _Changed)
_PAUSE = Script(LIBRARY, "pause_flow", _Changed)
_RETRY = Script(LIBRARY, "retry_flow", _Changed)
_READ: Script[Any] = Script(LIBRARY, "read_flow")
_RESULTS = Script(LIBRARY, "read_results", list[tuple[int, str, str, str | int | bool]])
_IDS = Script(LIBRARY, "flow_ids", tuple[list[str], bool])
_LIST = Script(LIBRARY, "list_flows", list[tuple[str, str, str, str, str, str, str, str]])
_FIND: Script[Any] = Script(LIBRARY, "find_step")
_DECLINE: Script[Any] = Script(LIBRARY, "decline_gate")
_TRIM = Script(LIBRARY, "trim_flows", tuple[int, int])
REPORT: Script[Any] = Script(LIBRARY, "report_steps")
"""The script with which workers report outcomes of flows' steps."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


class NewFlow(Struct, frozen=True, kw_only=True):
    """A workflow to create."""

    name: str
    creator: str
    spec: bytes
    """The packed ``Spec``, for the planner and the tools."""
    steps: int
    """The most steps that it can have. Their ids are the run's id + 1 .. + steps."""
    plan: Plan
    """Its first steps."""
    priority: Priority = "normal"
    queue: str = ""
    delay_ms: int = 0
    """The delay of its first steps."""
    parent: str = ""
    """The workflow that it is created for; only shown."""
    approver_roles: Collection[str] = ()
    """Roles that may release one of its gates: they hear of it."""


class StepRecord(Struct, frozen=True, kw_only=True):
    """A step. Times are ms of the store's clock; None: not yet."""

    id: int
    key: str
    status: StepStatus
    """A gate that waits is ``running``; ``pending`` waits for its time (delay or backoff), ``paused`` for its workflow
    to be resumed."""
    attempt: int
    ready_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    result_json: str | None = None
    gate: bool = False
    approved_by: str | None = None
    via: str = ""
    """How that came, if not by a call of its own: ``client``."""
    declined: tuple[str, ...] = ()
    """Those who were asked to release the gate and have not."""


class FlowRow(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    id: int
    name: str
    status: FlowStatus
    creator: str
    created_at: int
    completed_at: int | None = None
    cancelled_at: int | None = None
    error: str | None = None
    cancelled_by: str | None = None
    parent: str | None = None


class FlowList(NamedTuple):
    rows: list[FlowRow]
    before: int = 0
    """Workflows with lower ids were not scanned, because the limit was reached; 0: all were."""


class FlowRecord(Struct, frozen=True, kw_only=True):
    """A workflow with its spec and all its steps, by id."""

    row: FlowRow
    spec: bytes
    steps: list[StepRecord]


class _Read(NamedTuple):
    """The stored data of a workflow."""

    facts: dict[str, str]
    """Its header."""
    spec: bytes
    rows: list[list[Any]]
    """Its finished steps, as history.lua writes them."""
    open_steps: list[list[bytes]]
    """Of each the id and fields, and as JSON who has declined."""

    def only(self, flow: int, step: int) -> _Read:
        """The same with this step alone, if there is one."""
        rows = [row for row in self.rows if flow + row[0] == step]
        return self._replace(rows=rows, open_steps=[values for values in self.open_steps if int(values[0]) == step])

    def record(self, flow: int) -> FlowRecord:
        steps = [*(_finished(flow, row) for row in self.rows), *(_open(*values) for values in self.open_steps)]
        steps.sort(key=lambda step: step.id)
        values = [self.facts.get(name, "") for name in _ROW_FIELDS]
        return FlowRecord(row=_row(str(flow), *values), spec=self.spec, steps=steps)


class FoundStep(Struct, frozen=True, kw_only=True):
    """A step, and the creator and spec of its workflow, for checks before a release."""

    step: StepRecord
    creator: str
    spec: bytes


class FlowReads:
    """What is read of workflows of any project. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, project: str, flow: int, step: int = 0) -> FlowRecord | None:
        """A workflow with its steps; None if it is unknown, or if its retention has expired.

        Args:
            step: the id of the only step that is wanted; 0: all of them.
        """
        stored = None
        for _ in range(_MOST_READS):
            stored = await self._read(project, flow)
            if stored is not None and step:
                stored = stored.only(flow, step)
            if stored is None or await self._take_long_results(project, flow, stored.rows):
                break
            # It was retried meanwhile, or deleted.
        return stored.record(flow) if stored is not None else None

    async def outline(self, project: str, flow: int) -> FlowRecord | None:
        """The same without long results."""
        stored = await self._read(project, flow)
        return stored.record(flow) if stored is not None else None

    async def _read(self, project: str, flow: int) -> _Read | None:
        stored = await self._store.run(_READ, project, flow)
        if stored is None:
            return None
        head, spec, rows, open_steps = stored
        facts = {name.decode(): value.decode() for name, value in zip(head[::2], head[1::2], strict=True)}
        return _Read(facts, spec, [_unpack(row) for row in rows], open_steps)

    async def _take_long_results(self, project: str, flow: int, rows: Sequence[list[Any]]) -> bool:
        """Replaces the lengths of long results by the results, up to ``MAX_READ_BYTES``; False if some were deleted."""
        left, taken = MAX_READ_BYTES, []
        for row in rows:
            if type(row[_RESULT]) is int:
                left -= min(row[_RESULT], MAX_RESULT_BYTES)
                if left >= 0:
                    taken.append(row)
                else:
                    row[_RESULT] = f'{{"truncated":true,"bytes":{row[_RESULT]}}}'
        if not taken:
            return True
        results = await self._store.command("HMGET", keys.results.key(project, str(flow)), *(row[0] for row in taken))
        for row, result in zip(taken, results, strict=True):
            row[_RESULT] = result and result.decode()
        return None not in results

    async def results(self, project: str, flow: int, wanted: Iterable[str]) -> dict[str, str | None]:
        """The results of these steps by key, as JSON; of a failed step what ``result_of_failed`` says, None for null.
        Open steps are left out."""
        results: dict[str, str | None] = {}
        for number, key, status, result in await self._store.run(_RESULTS, project, flow, *wanted):
            if status == "D" and type(result) is int:
                stored = await self._store.command("HGET", keys.results.key(project, str(flow)), number)
                if stored is None:
                    continue  # the flow was retried
                result = stored.decode()
            if status == "F" and isinstance(result, str):
                value = result_of_failed(msgspec.json.decode(result).get("type", ""))
                results[key] = None if value is None else msgspec.json.encode(value).decode()
            else:
                results[key] = result if status == "D" and isinstance(result, str) else None
        return results

    async def list(
        self,
        project: str,
        *,
        limit: int,
        creator: str | None = None,
        status: FlowStatus | None = None,
        name: str = "",
        before: int = 0,
    ) -> FlowList:
        """Workflows, newest first; scans at most ``MAX_PAGES`` pages.

        Args:
            creator: lists only the workflows of this creator; None: of all.
            name: lists only workflows whose name contains it; case does not matter.
            before: lists only workflows with a lower id; 0: begins with the newest.
        """
        sets = ["u" + _hashed(creator)] if creator is not None else []
        sets += [_LETTERS[status]] if status else []
        rows: list[FlowRow] = []
        below = f"({before}" if before else "+inf"
        size = min(limit, PAGE) if not name and len(sets) < 2 else PAGE
        for _ in range(MAX_PAGES):
            page = await self._store.run(_LIST, project, below, size, int(bool(sets)), *(sets or _LETTERS.values()))
            for values in page:
                row = _row(*values)
                if (
                    (status is None or row.status == status)
                    and (creator is None or row.creator == creator)
                    and name.lower() in row.name.lower()
                ):
                    rows.append(row)
            if len(page) < size or len(rows) >= limit:
                return FlowList(rows[:limit])
            before = int(page[-1][0])
            below = f"({before}"
        return FlowList(rows, before)

    async def count(self, project: str, *, creator: str | None = None, status: FlowStatus | None = None) -> int | None:
        """How many workflows there are, in all, of a creator or with a status; None: no index knows both together."""
        if creator is not None and status is not None:
            return None
        letters = [_LETTERS[status]] if status else list(_LETTERS.values())
        sets = [keys.flows.key(project, one) for one in letters]
        if creator is not None:
            sets = [keys.owned.key(project, _hashed(creator))]
        counts: list[int] = await gather(*(self._store.command("ZCARD", one) for one in sets))
        return sum(counts)

    async def ids(self, project: str, lowest: int, highest: int, creator: str | None) -> Completed:
        """The ids of workflows within a range, newest first.

        Args:
            creator: lists only the workflows of this creator; None: of all.
        """
        sets = _LETTERS.values() if creator is None else ("u" + _hashed(creator),)
        return Completed(*await self._store.run(_IDS, project, lowest, highest, COMPLETIONS_MOST, *sets))

    async def find_step(self, project: str, step: int) -> FoundStep | None:
        """Finds a step by its id alone, without its result; None if it is unknown."""
        run = await self._store.run(_FIND, project, step)
        read = await self._read(project, int(run)) if run else None
        if read is None:
            return None
        record = read.record(int(run))
        creator = record.row.creator
        return next(
            (FoundStep(step=one, creator=creator, spec=read.spec) for one in record.steps if one.id == step), None
        )


class FlowStore(RunStore, FlowReads):
    """Workflows of any project."""

    async def create(self, project: str, request: IdempotencyKey, new: NewFlow) -> int:
        """Stores and starts a workflow; returns its id."""
        await self._note(project, request)
        owner = _hashed(new.creator)
        pool = new.queue or self._pools.get(project, "")
        roles = msgspec.json.encode(sorted(new.approver_roles)).decode() if new.approver_roles else ""
        flow = (new.name, new.creator, owner, new.steps, new.priority, pool, new.delay_ms, new.parent, carried(), roles)
        run, to_relay = await self._change(_CREATE, project, request, _pack(flow), new.spec, _pack(new.plan))
        await self._wake_relay(project, to_relay)
        return run

    async def created(self, project: str, request: IdempotencyKey) -> int | None:
        """The workflow that an earlier attempt of this call created; None if there was none.

        Raises:
            ToolFailure: ``request_id_reused``.
        """
        reply = await recorded_reply(self._store, project, request)
        return None if reply is None else int(_unpack(reply)[0])

    async def cancel(
        self, project: str, request: IdempotencyKey, flow: int, actor: str
    ) -> tuple[bool, FlowStatus] | None:
        """Cancels a running or paused workflow. Its steps are stopped, and their results dropped.

        Returns:
            Whether this call cancelled it, and its status now; None if it is unknown.
        """
        reply = await self._change(_CANCEL, project, request, flow, actor)
        if reply.done and not request.replayed:
            RUNS_ENDED.labels("flows", "cancelled").inc()
        return (bool(reply.done), _STATUSES[reply.status]) if reply.status else None

    async def release(
        self, project: str, request: IdempotencyKey, step: int, actor: str, via: str = ""
    ) -> tuple[bool, StepStatus] | None:
        """Releases a gate, or lets a pending or paused step begin at once.

        Args:
            via: as ``StepRecord.via``.

        Returns:
            Whether this call did it, and the step's status before; None if the step is unknown.
        """
        await self._note(project, request)
        reply = await self._change(_RELEASE, project, request, step, actor, via)
        if reply.status:
            await self._wake_relay(project, reply.to_relay)
            return bool(reply.done), _OPEN[reply.status]
        current = await self.find_step(project, step)
        return (False, current.step.status) if current else None

    async def decline(self, project: str, step: int, actor: str) -> None:
        """Notes that somebody was asked to release a gate, and has not."""
        await self._store.run(_DECLINE, project, step, actor)

    async def pause(
        self, project: str, request: IdempotencyKey, flow: int, actor: str, reason: str = "", *, resume: bool = False
    ) -> tuple[bool, FlowStatus] | None:
        """Pauses a running workflow: no further step begins, running steps finish. Or resumes a paused one.

        Args:
            reason: why; kept in the event.

        Returns:
            Whether this call did it, and the workflow's status before; None if the workflow is unknown.
        """
        await self._note(project, request)
        reply = await self._change(_PAUSE, project, request, flow, actor, reason, int(resume))
        if not reply.status:
            return None
        await self._wake_relay(project, reply.to_relay)
        return bool(reply.done), _STATUSES[reply.status]

    async def retry(
        self, project: str, request: IdempotencyKey, flow: int, actor: str, reason: str = ""
    ) -> tuple[int, FlowStatus] | None:
        """Runs the failed and cancelled steps of a failed or cancelled workflow again.

        Args:
            reason: why; kept in the event.

        Returns:
            How many steps were reopened, and the workflow's status before; None if the workflow is unknown.
        """
        await self._note(project, request)
        reply = await self._change(_RETRY, project, request, flow, actor, reason)
        if not reply.status:
            return None
        await self._wake_relay(project, reply.to_relay)
        return reply.done, _STATUSES[reply.status]

    async def trim(self, project: str, batch: int = 100) -> tuple[int, int]:
        """Deletes at most ``batch`` workflows whose retention has expired.

        Returns:
            How many were deleted, and how many finished ones remain.
        """
        return await self._store.run(_TRIM, project, self.retention_ms, batch)


def _hashed(creator: str) -> str:
    # Text from callers must never become part of a key.
    return blake2b(creator.encode(), digest_size=8).hexdigest()


def _row(id: str, name: str, status: str, creator: str, created: str, ended: str, why: str, parent: str) -> FlowRow:
    state, created_at = _STATUSES[status], int(created or id)
    ended_at = int(ended) if ended else None
    return FlowRow(
        id=int(id),
        name=name,
        status=state,
        creator=creator,
        created_at=created_at,
        completed_at=ended_at if status in "cf" else None,
        cancelled_at=ended_at if status == "x" else None,
        error=why if status == "f" else None,
        cancelled_by=why if status == "x" else None,
        parent=parent or None,
    )


def _finished(flow: int, row: Sequence[Any]) -> StepRecord:
    number, key, status, attempt, ready, started, ended, result, *more = row
    by, _, via = (more[0] or "").partition("\0") if more else ("", "", "")
    return StepRecord(
        id=flow + number,
        key=key,
        status=_ENDS[status],
        attempt=attempt,
        ready_at=flow + ready,
        started_at=None if started is False else flow + started,
        completed_at=flow + ended,
        result_json=result if isinstance(result, str) else None,
        approved_by=by or None,
        via=via,
    )


def _open(id: bytes, *values: bytes) -> StepRecord:
    key, status, attempt, ready, started, released, gate, declined = (value.decode() for value in values)
    by, _, via = released.partition("\0")
    return StepRecord(
        id=int(id),
        key=key,
        status=_OPEN[status],
        attempt=int(attempt),
        ready_at=int(ready),
        started_at=int(started) if started and (gate or status == "r") else None,
        gate=status == "g",
        approved_by=by or None,
        via=via,
        declined=tuple(msgspec.json.decode(declined) or ()),
    )
