"""workflow_create: arguments, result, and what a flow may hold."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from coordinator.steps.handoff import PRIORITIES
from coordinator.steps.model import BACKOFFS
from coordinator.toolsets.canonical import meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.flows.contract import base
from coordinator.toolsets.flows.rules import limits
from coordinator.toolsets.request_id import RequestId

Json = dict[str, Any]


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _whole(description: str, low: int, high: int) -> Json:
    return {"type": "integer", "description": description, "minimum": low, "maximum": high}


def _object(description: str, required: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


QUEUE: Json = {
    "description": "Pool of workers that executes it; default: any worker.",
    "pattern": "^[a-z][a-z0-9_-]{0,49}$",
}
PRIORITY: Json = {"description": "Which waiting steps go first.", "enum": list(PRIORITIES)}

STEP: Json = _object(
    "A step: name, tool, and exactly one of next, branch, parallel, join and done.",
    ["name", "tool"],
    name=_text("Unique within the workflow.", minLength=1, maxLength=limits.MAX_NAME),
    tool={
        "type": ["string", "null"],
        "description": "Tool to call; null: a gate that waits for workflow_step_ready, with parallel a step that does "
        "nothing.",
    },
    args={
        "type": "object",
        "description": "Arguments of the tool; texts may hold {{input.key}} templates.",
    },
    next=_text("Key of the next step."),
    branch={
        "type": "array",
        "description": "The first entry whose condition holds decides what comes next; none: the workflow fails.",
        "minItems": 1,
        "maxItems": limits.MAX_WIDTH,
        "items": _object(
            "A condition and a step.",
            ["if", "then"],
            **{
                "if": _text(
                    'Exactly one of: result == true, result == false, result != nil, result == nil, result == "text".'
                ),
                "then": _text("Key of a step."),
            },
        ),
    },
    parallel={
        "type": "array",
        "description": "Keys of steps to run at once; each branch has to end with the same join.",
        "minItems": 1,
        "maxItems": limits.MAX_WIDTH,
        "items": {"type": "string"},
    },
    join=_text("Key of the step that is created when all parallel branches have come this far."),
    done={"type": "boolean", "description": "true: the workflow is complete after this step."},
    gate={
        "type": "boolean",
        "description": "Of a step without a tool: whether it waits for workflow_step_ready. Default: unless it has "
        "parallel.",
    },
    approver_role=_text("Of a gate: the role that an identified caller needs to release it."),
    retry=_object(
        "Tries a failed attempt again; default: one attempt.",
        ["max_attempts"],
        max_attempts=_whole("Attempts altogether.", 1, limits.MAX_ATTEMPTS),
        delay_ms=_whole("Wait after the first failure, ms. Default 1000.", 0, limits.MAX_TIMEOUT_MS),
        backoff={
            "description": "exponential doubles the wait each time (default).",
            "enum": list(BACKOFFS),
        },
        max_delay_ms=_whole("Longest wait, ms. Default 60000.", 0, limits.MAX_TIMEOUT_MS),
    ),
    timeout_ms=_whole(
        f"Longest time of one attempt, default 60000, at most {limits.MAX_TIMEOUT_MS} ms; of a gate how long it "
        "waits, default for ever.",
        1,
        limits.MAX_DELAY_MS,
    ),
    on_error={
        "description": "continue: goes on as if a failed step had returned null. Default fail: the workflow fails.",
        "enum": ["fail", "continue"],
    },
    queue={"type": "string", **QUEUE},
    priority={"type": "string", **PRIORITY},
    delay_ms=_whole("Wait before it begins, ms.", 0, limits.MAX_DELAY_MS),
)


class WorkflowCreate(base.Arguments, kw_only=True):
    """Define and start a workflow."""

    name: Annotated[
        str, doc("Name of the workflow: 1 to 200 characters.", published={"minLength": 1, "maxLength": limits.MAX_NAME})
    ]
    flow: Annotated[
        dict[str, Any],
        doc(
            "The step graph: steps by key, each in the form of start, which is the first.",
            published={
                "properties": {"start": STEP},
                "required": ["start"],
                "additionalProperties": {"type": "object", "description": "Another step, in the form of start."},
                "maxProperties": limits.MAX_STEPS,
            },
        ),
    ]
    input: Annotated[
        dict[str, Any] | None, doc("Variables that step args refer to as {{input.key}}.", extra=meant({}))
    ] = None
    actor: base.OptionalActor = None
    request_id: RequestId = msgspec.field(default=None, name="requestId")
    parent: Annotated[base.Id | None, doc("The workflow that this one is created for; shown, not followed.")] = None
    queue: Annotated[str | None, Meta(extra_json_schema=QUEUE)] = None
    priority: Annotated[
        str | None, doc("Default normal; a step may have its own.", enum=[*PRIORITIES, None], extra=meant("normal"))
    ] = None
    delay_ms: Annotated[int, doc("Wait before the first step begins, ms.", ge=0, le=limits.MAX_DELAY_MS)] = 0


class Created(base.Result, kw_only=True):
    id: base.WorkflowId
    status: Annotated[str, doc("Always started.", enum=["started"])]
