"""workflow_create."""

from __future__ import annotations

from typing import cast

from coordinator.errors import ToolFailure, invalid
from coordinator.steps.handoff import PRIORITIES, Priority
from coordinator.steps.names import StepNames
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.flows.contract.create import STEP, Created, WorkflowCreate
from coordinator.toolsets.flows.rules import planner
from coordinator.toolsets.flows.rules.check import as_meant, check_flow
from coordinator.toolsets.flows.rules.parse import QUEUE, QUEUE_RULE, name_problem
from coordinator.toolsets.flows.rules.spec import START, Spec, pack
from coordinator.toolsets.flows.store.flows import FlowStore, NewFlow
from coordinator.toolsets.flows.tools.shared import acting, approver_roles
from coordinator.toolsets.lenient import meant
from coordinator.toolsets.request_id import keyed
from coordinator.toolsets.tool import Call, Services, Tool

_CREATE = (
    "Create a workflow and start it. flow maps keys to steps; the first step has the key start. Each step has a tool "
    "(null: an approval gate, or with parallel a fork) and exactly one of next, branch, parallel, join, done. Tools: "
    "those of this server, <connection>.<tool> of configured MCP servers, and configured functions. Args may refer to "
    "input as {{input.key}}. If the flow is invalid, all its problems are returned and nothing is stored. Poll "
    "workflow_get for the result."
)


class Creation:
    """The handler of the tool that creates workflows."""

    def __init__(self, flows: FlowStore, names: StepNames, services: Services) -> None:
        self._flows = flows
        self._names = names
        self._services = services
        self._with_results = services.settings.flows.step_results

    async def workflow_create(self, call: Call, args: WorkflowCreate) -> Created:
        """Checks a whole flow, and starts it."""
        who = await acting(self._services, call, args.actor)
        _check(args)
        given = args.input or {}
        # Decoding does not check the fields of a step.
        steps = {key: meant(STEP, spec) for key, spec in args.flow.items()}
        asked = {**canonical(args), "flow": as_meant(steps)} if args.request_id else {}
        record = keyed(who.id, args.request_id, "workflow_create", asked)
        try:
            flow = check_flow(steps, given, self._names.problem, with_results=self._with_results)
        except ToolFailure:
            # A process with other tools may have created it.
            if (made := await self._flows.created(call.project, record)) is None:
                raise
            return Created(id=made, status="started")
        if args.delay_ms and flow[START].gate:
            raise invalid("delay_ms", "the first step is a gate, which waits for its release and cannot be delayed")
        spec = Spec(flow, given, who.caller, call.owner)
        new = NewFlow(
            name=args.name,
            creator=who.id,
            spec=pack(spec),
            steps=len(flow),
            plan=planner.begin(flow, delayed=args.delay_ms > 0),
            priority=cast("Priority", args.priority or "normal"),
            queue=args.queue or "",
            delay_ms=args.delay_ms,
            parent=str(args.parent or ""),
            approver_roles=approver_roles(spec),
        )
        return Created(id=await self._flows.create(call.project, record, new), status="started")


def tools(flows: FlowStore, names: StepNames, services: Services) -> tuple[Tool, ...]:
    handle = Creation(flows, names, services)
    return (
        Tool(
            "workflow_create",
            _CREATE,
            WorkflowCreate,
            (Created,),
            handle.workflow_create,
            makes=lambda made: f"flows/{made.id}",
        ),
    )


def _check(args: WorkflowCreate) -> None:
    """Rejects invalid arguments other than the flow and its input.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    if problem := name_problem(args.name):
        raise invalid("name", problem)
    if args.queue is not None and not QUEUE.match(args.queue):
        raise invalid("queue", f"must be {QUEUE_RULE}")
    if args.priority is not None and args.priority not in PRIORITIES:
        raise invalid("priority", f"must be one of {', '.join(PRIORITIES)}")
