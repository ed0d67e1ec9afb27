"""workflow_list and workflow_get."""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.steps.results import shortened
from coordinator.toolsets import pages
from coordinator.toolsets.flows.contract.base import WORKFLOW_STATUSES
from coordinator.toolsets.flows.contract.reads import (
    MAX_LIMIT,
    WAITS_FOR,
    StepRow,
    Workflow,
    WorkflowGet,
    WorkflowList,
    WorkflowRow,
)
from coordinator.toolsets.flows.rules.permissions import administers, may_read
from coordinator.toolsets.flows.rules.spec import Spec, unpack
from coordinator.toolsets.flows.store.flows import FlowRow, FlowStore, StepRecord
from coordinator.toolsets.flows.tools.approvals import decide, question
from coordinator.toolsets.flows.tools.shared import admitted, approver_roles, unknown_workflow
from coordinator.toolsets.flows.tools.waits import WatchedFlows, met
from coordinator.toolsets.questions import Question
from coordinator.toolsets.tool import Call, Complete, Completed, Criticality, Reply, Tool
from coordinator.toolsets.waiting.reads import WaitingReads, check, waited
from coordinator.toolsets.waiting.tasks import waiting_read

_LIST = (
    "List workflows with their status, newest first. A list that looks for few among very many may stop before it has "
    "looked at all: then the result's _meta has fleet-coordinator/before, the value of before to go on with."
)
_WHOLE_CHARS = 500_000
"""The most bytes shown of one requested result; hosts show no more."""
_BEGINNING = 200
"""Characters shown of a result that is too large."""
_BEFORE = "fleet-coordinator/before"
_NOTICE = "fleet-coordinator/notice"
_GET = (
    "Get a workflow with its steps so far. A gate that waits for workflow_step_ready is a step with status running and "
    "tool null. result_json is the JSON text of what a step returned, or of its error; of the largest, only size and "
    "beginning where one answer cannot hold them all: step=<its id> shows one whole. waitMs waits for waitFor."
)
_PAGE = re.compile("[0-9]{1,16}")
"""An ``after`` that is the id of a step."""
_ID_DIGITS = 13
"""Of the id of a workflow: milliseconds."""


class Reads:
    """The handlers of the tools that show workflows."""

    def __init__(self, flows: FlowStore, waiting: WaitingReads) -> None:
        self._flows = flows
        self._waiting = waiting
        self._watched = WatchedFlows(flows, waiting)

    async def workflow_list(self, call: Call, args: WorkflowList) -> Reply:
        """The workflows that the caller may see, newest first."""
        admitted(call.caller, read_only=True)
        if args.status is not None and args.status not in WORKFLOW_STATUSES:
            raise invalid("status", f"must be one of {', '.join(WORKFLOW_STATUSES)}")
        own = None if call.caller is None or administers(call.caller) else call.caller.id
        listed = await self._flows.list(
            call.project,
            limit=min(args.limit, MAX_LIMIT),
            creator=own,
            status=args.status,
            name=args.name or "",
            before=args.before or 0,
        )
        meta: dict[str, Any] = {_BEFORE: listed.before} if listed.before else {}
        if args.limit > MAX_LIMIT:
            # A bare list has no place for it.
            limit = str(args.limit)[:20]
            meta[_NOTICE] = f"limit: {limit} is more than the maximum of {MAX_LIMIT}, so {MAX_LIMIT} was used"
        return Reply(structured=[_listed(row) for row in listed.rows], meta=meta or None)

    async def workflow_get(self, call: Call, args: WorkflowGet) -> Workflow | Question:
        """A workflow with its steps so far; with waitMs, when it has come to a state. While a
        caller waits for attention, the person behind their client is asked about gates."""
        if call.answer is not None:
            await decide(self._flows, call, call.answer)
        after = str(args.after or "")
        steps_after, since = (int(after), None) if _PAGE.fullmatch(after) else (0, after or None)
        condition = check(args.wait_ms, args.wait_for, since, WAITS_FOR)
        result = await self._get(call, args, steps_after)  # also before a wait, because not everybody may read it
        if condition is None:
            return result
        outcome = await self._waiting.wait(
            call,
            self._watched.source,
            str(args.id),
            args.wait_ms or 0,
            changed=condition == "changed",
            after=since,
            met=met(condition, call.caller),
        )
        result = await self._get(call, args, steps_after)
        result.waited = waited(outcome)
        if condition == "attention" and outcome.met and call.can_ask:
            flow = await self._flows.get(call.project, args.id)
            return (flow and question(flow, unpack(flow.spec), call.caller, result)) or result
        return result

    async def _get(self, call: Call, args: WorkflowGet, after: int) -> Workflow:
        admitted(call.caller, read_only=True)
        flow = await self._flows.get(call.project, args.id, args.step or 0)
        if flow is None:
            raise unknown_workflow()
        spec = unpack(flow.spec)
        if not may_read(call.caller, flow.row.creator, approver_roles(spec)):
            raise unknown_workflow()
        if args.step and not flow.steps:
            raise invalid("step", "the workflow has no such step; allowed: an id from the steps of workflow_get")
        steps = [_shown(step, spec) for step in flow.steps if step.id > after]
        held = steps if args.step or args.whole else fitting_steps(steps)
        return Workflow(
            id=flow.row.id,
            name=flow.row.name,
            status=flow.row.status,
            created_by=flow.row.creator,
            reason=flow.row.error or UNSET,
            parent=int(flow.row.parent) if flow.row.parent else UNSET,
            steps=held,
            next_after=held[-1].id if len(held) < len(steps) else UNSET,
        )


def tools(flows: FlowStore, waiting: WaitingReads) -> tuple[Tool, ...]:
    handle = Reads(flows, waiting)
    return (
        Tool(
            "workflow_list",
            _LIST,
            WorkflowList,
            (),
            handle.workflow_list,
            read_only=True,
            idempotent=True,
            criticality=Criticality.SHEDDABLE,
        ),
        waiting_read(
            Tool(
                "workflow_get",
                _GET,
                WorkflowGet,
                (Workflow,),
                handle.workflow_get,
                idempotent=True,
                asks=True,
                result_chars=_WHOLE_CHARS,
            ),
            lambda args: f"flows/{args.id}",
        ),
    )


def completion(flows: FlowStore) -> Complete:
    """Completes ids of workflows: those that the caller has created, or may administer."""

    async def complete(call: Call, typed: str) -> Completed:
        missing = _ID_DIGITS - len(typed)
        if missing < 0 or typed.strip("0123456789"):
            return Completed([])
        own = None if administers(call.caller) else getattr(call.caller, "id", "")
        lowest = int(typed or 0) * 10**missing
        return await flows.ids(call.project, lowest, lowest + 10**missing - 1, own)

    return complete


def _listed(row: FlowRow) -> WorkflowRow:
    return WorkflowRow(
        id=row.id,
        name=row.name,
        status=row.status,
        created_by=row.creator,
        completed_at=row.completed_at,
        cancelled_at=row.cancelled_at if row.cancelled_at is not None else UNSET,
        parent=int(row.parent) if row.parent else UNSET,
    )


def fitting_steps(steps: list[StepRow]) -> list[StepRow]:
    """As many steps as an answer can hold. If results do not fit, only the beginning of the largest is shown."""
    sizes = {step.id: pages.size(step) for step in steps}
    left = pages.ANSWER_CHARS - sum(sizes.values())
    for step in sorted(steps, key=lambda step: len(step.result_json or ""), reverse=True):
        result = step.result_json or ""
        if left >= 0 or len(result) <= _BEGINNING:
            break
        step.result_json = shortened(result, _BEGINNING)
        left += sizes[step.id] - pages.size(step)
    return steps[: pages.fitting(steps)] if left < 0 else steps


def _shown(step: StepRecord, spec: Spec) -> StepRow:
    definition = spec.flow[step.key]
    return StepRow(
        id=step.id,
        name=definition.name,
        tool=definition.tool,
        status=step.status,
        attempt=step.attempt,
        result_json=step.result_json,
        started_at=step.started_at,
        completed_at=step.completed_at,
        approved_by=step.approved_by or UNSET,
        via=step.via or UNSET,
    )
