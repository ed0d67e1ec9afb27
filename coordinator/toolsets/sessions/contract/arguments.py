"""Arguments of the tools. Additions of this project come last in their tool."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.toolsets.actor import Actor
from coordinator.toolsets.waiting_reads import After, WaitMs

MAX_AGENT = 200
MAX_NAME = 200
MAX_CONDITION = 1_000
MAX_MANIFEST = 1_000

WAITS_FOR = ("checkpoint", "changed", "ended")


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Arguments of a tool."""


SessionToken = Annotated[str, Meta(description="The last call's token.", min_length=1)]
Handle = Annotated[
    str | None, Meta(description="The checkpoint_handle that the worker yielded. This or session_token is required.")
]
HandleToken = Annotated[
    str | None,
    Meta(description="In place of checkpoint_handle: the session's token, as get_workflow_status returned it."),
]


class NoArguments(Arguments, kw_only=True):
    """For tools without arguments."""


class SessionOnly(Arguments, kw_only=True):
    """For tools that need only the session."""

    session_token: SessionToken


class GetStatus(Arguments, kw_only=True):
    """Arguments of get_workflow_status."""

    session_token: SessionToken
    answered_checkpoints: Annotated[
        bool, Meta(description="True: list every checkpoint that was answered, with its last answer.")
    ] = False
    wait_for: Annotated[
        str | None,
        Meta(
            description="checkpoint: one waits for its answer, or ended.",
            extra_json_schema={"enum": [*WAITS_FOR, None]},
        ),
    ] = msgspec.field(name="waitFor", default=None)
    wait_ms: WaitMs = msgspec.field(name="waitMs", default=None)
    after: After = None


class BySession(Arguments, kw_only=True):
    """For documents about a session, which need no token."""

    session_id: str


class StartSession(Arguments, kw_only=True):
    """Arguments of start_session."""

    agent_id: Annotated[
        str,
        Meta(
            description="Who calls, for example orchestrator or worker-1; tells the agents of a session apart in its "
            "trace. 1 to 200 characters.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_AGENT},
        ),
    ] = "orchestrator"
    workflow_id: Annotated[
        str | None,
        Meta(description="Workflow of a new session; default meta. Ignored with a valid session_token."),
    ] = None
    parent_session_token: Annotated[
        str | None, Meta(description="Makes a fresh session a child of this one. Ignored with session_token.")
    ] = None
    session_token: Annotated[
        str | None,
        Meta(description="The session to go on with: to dispatch a worker into it, or to resume from a saved token."),
    ] = None
    item_id: Annotated[
        str | None,
        Meta(
            description="UUID of a work item to bind the session to; its claim must be yours. Without session_token "
            "the item's open session is resumed, if it has one (of workflow_id, where given)."
        ),
    ] = None
    actor: Annotated[
        Actor | None, Meta(description="Who holds the item's claim; default is a subagent with agent_id as its id.")
    ] = None
    fence_token: Annotated[
        Annotated[int, Meta(ge=1, le=9007199254740991)] | None,
        Meta(description="The claim's fenceToken; a stale one is refused."),
    ] = None


class GetWorkflow(Arguments, kw_only=True):
    """Arguments of get_workflow."""

    session_token: SessionToken
    summary: Annotated[
        bool,
        Meta(
            description="True: rules, variables, modes, initialActivity and stubs of activities. False: the whole "
            "definition, activities included; it can be long."
        ),
    ] = True


class StepReport(Arguments, kw_only=True):
    """One step of a step_manifest."""

    step_id: Annotated[str, Meta(description="The step.")]
    output: Annotated[str, Meta(description="Its outcome, in short; not blank.")]


class ActivityReport(Arguments, kw_only=True):
    """One activity of an activity_manifest."""

    activity_id: Annotated[str, Meta(description="The activity.")]
    outcome: Annotated[str, Meta(description="Its outcome; not blank.")]
    transition_condition: Annotated[
        str | None, Meta(description="The condition under which it was left, or default.")
    ] = None


class NextActivity(Arguments, kw_only=True):
    """Arguments of next_activity."""

    session_token: SessionToken
    activity_id: Annotated[
        str,
        Meta(
            description="First initialActivity of get_workflow, then a target among the transitions of get_activity. "
            "__terminal__ completes the session from an activity that may be the last."
        ),
    ]
    transition_condition: Annotated[
        str | None,
        Meta(
            description="The condition of the transition taken, as the workflow states it, or default.",
            extra_json_schema={"maxLength": MAX_CONDITION},
        ),
    ] = None
    step_manifest: Annotated[
        list[StepReport] | None,
        Meta(
            description="All steps of the activity that is left, in order.",
            extra_json_schema={"maxItems": MAX_MANIFEST},
        ),
    ] = None
    activity_manifest: Annotated[
        list[ActivityReport] | None,
        Meta(description="The activities completed so far; advisory.", extra_json_schema={"maxItems": MAX_MANIFEST}),
    ] = None


class YieldCheckpoint(Arguments, kw_only=True):
    """Arguments of yield_checkpoint."""

    session_token: SessionToken
    checkpoint_id: Annotated[str, Meta(description="A checkpoint of the current activity.")]
    ask_again: Annotated[
        bool,
        Meta(
            description="After a take-over of the session: ask although the checkpoint was answered before it, as in "
            "a loop."
        ),
    ] = False


class PresentCheckpoint(Arguments, kw_only=True):
    """Arguments of present_checkpoint."""

    checkpoint_handle: Handle = None
    session_token: HandleToken = None


class RespondCheckpoint(Arguments, kw_only=True):
    """Arguments of respond_checkpoint."""

    checkpoint_handle: Handle = None
    session_token: HandleToken = None
    option_id: Annotated[str | None, Meta(description="The option that the user chose.")] = None
    auto_advance: Annotated[
        bool | None,
        Meta(description="Take the default option: for checkpoints with blocking false, once autoAdvanceMs are over."),
    ] = None
    condition_not_met: Annotated[
        bool | None, Meta(description="Dismiss the checkpoint: for those with a condition, when it does not hold.")
    ] = None


class GetSkill(Arguments, kw_only=True):
    """Arguments of get_skill."""

    session_token: SessionToken
    step_id: Annotated[
        str | None, Meta(description="A step of the current activity or of its loops; left out: the activity's skill.")
    ] = None


class GetResource(Arguments, kw_only=True):
    """Arguments of get_resource."""

    session_token: SessionToken
    resource_id: Annotated[str, Meta(description="A number, such as 03, or with a workflow, such as meta/01.")]


class GetTrace(Arguments, kw_only=True):
    """Arguments of get_trace."""

    session_token: SessionToken
    trace_tokens: Annotated[
        list[str] | None,
        Meta(description="Trace tokens from next_activity, to be resolved; none: the whole trace."),
    ] = None
