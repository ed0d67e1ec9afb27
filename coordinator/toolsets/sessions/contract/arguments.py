"""Arguments of the tools. Additions of this project come last in their tool."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.toolsets.actor import Actor
from coordinator.toolsets.doc import doc
from coordinator.toolsets.waiting.reads import After, WaitMs

MAX_AGENT = 200
MAX_NAME = 200
MAX_CONDITION = 1_000
MAX_MANIFEST = 1_000

WAITS_FOR = ("checkpoint", "changed", "ended")


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Arguments of a tool."""


SessionToken = Annotated[str, doc("The last call's token.", min_length=1)]
Handle = Annotated[str | None, doc("The checkpoint_handle that the worker yielded. This or session_token is required.")]
HandleToken = Annotated[
    str | None, doc("In place of checkpoint_handle: the session's token, as get_workflow_status returned it.")
]


class NoArguments(Arguments, kw_only=True):
    """For tools without arguments."""


class SessionOnly(Arguments, kw_only=True):
    """For tools that need only the session."""

    session_token: SessionToken


class GetStatus(Arguments, kw_only=True):
    session_token: SessionToken
    answered_checkpoints: Annotated[
        bool, doc("True: list every checkpoint that was answered, with its last answer.")
    ] = False
    wait_for: Annotated[str | None, doc("checkpoint: one waits for its answer, or ended.", enum=[*WAITS_FOR, None])] = (
        msgspec.field(name="waitFor", default=None)
    )
    wait_ms: WaitMs = msgspec.field(name="waitMs", default=None)
    after: After = None


class BySession(Arguments, kw_only=True):
    """For documents about a session, which need no token."""

    session_id: str


class StartSession(Arguments, kw_only=True):
    agent_id: Annotated[
        str,
        doc(
            "Who calls, for example orchestrator or worker-1; tells the agents of a session apart in its "
            "trace. 1 to 200 characters.",
            published={"minLength": 1, "maxLength": MAX_AGENT},
        ),
    ] = "orchestrator"
    workflow_id: Annotated[
        str | None, doc("Workflow of a new session; default meta. Ignored with a valid session_token.")
    ] = None
    parent_session_token: Annotated[
        str | None, doc("Makes a fresh session a child of this one. Ignored with session_token.")
    ] = None
    session_token: Annotated[
        str | None, doc("The session to go on with: to dispatch a worker into it, or to resume from a saved token.")
    ] = None
    item_id: Annotated[
        str | None,
        doc(
            "UUID of a work item to bind the session to; its claim must be yours. Without session_token "
            "the item's open session is resumed, if it has one (of workflow_id, where given)."
        ),
    ] = None
    actor: Annotated[
        Actor | None, doc("Who holds the item's claim; default is a subagent with agent_id as its id.")
    ] = None
    fence_token: Annotated[
        Annotated[int, Meta(ge=1, le=9007199254740991)] | None, doc("The claim's fenceToken; a stale one is refused.")
    ] = None


class GetWorkflow(Arguments, kw_only=True):
    session_token: SessionToken
    summary: Annotated[
        bool,
        doc(
            "True: rules, variables, modes, initialActivity and stubs of activities. False: the whole "
            "definition, activities included; it can be long."
        ),
    ] = True


class StepReport(Arguments, kw_only=True):
    """One step of a step_manifest."""

    step_id: Annotated[str, doc("The step.")]
    output: Annotated[str, doc("Its outcome, in short; not blank.")]


class ActivityReport(Arguments, kw_only=True):
    """One activity of an activity_manifest."""

    activity_id: Annotated[str, doc("The activity.")]
    outcome: Annotated[str, doc("Its outcome; not blank.")]
    transition_condition: Annotated[str | None, doc("The condition under which it was left, or default.")] = None


class NextActivity(Arguments, kw_only=True):
    session_token: SessionToken
    activity_id: Annotated[
        str,
        doc(
            "First initialActivity of get_workflow, then a target among the transitions of get_activity. "
            "__terminal__ completes the session from an activity that may be the last."
        ),
    ]
    transition_condition: Annotated[
        str | None,
        doc(
            "The condition of the transition taken, as the workflow states it, or default.",
            published={"maxLength": MAX_CONDITION},
        ),
    ] = None
    step_manifest: Annotated[
        list[StepReport] | None,
        doc("All steps of the activity that is left, in order.", published={"maxItems": MAX_MANIFEST}),
    ] = None
    activity_manifest: Annotated[
        list[ActivityReport] | None,
        doc("The activities completed so far; advisory.", published={"maxItems": MAX_MANIFEST}),
    ] = None


class YieldCheckpoint(Arguments, kw_only=True):
    session_token: SessionToken
    checkpoint_id: Annotated[str, doc("A checkpoint of the current activity.")]
    ask_again: Annotated[
        bool, doc("After a take-over of the session: ask although the checkpoint was answered before it, as in a loop.")
    ] = False


class PresentCheckpoint(Arguments, kw_only=True):
    checkpoint_handle: Handle = None
    session_token: HandleToken = None


class RespondCheckpoint(Arguments, kw_only=True):
    checkpoint_handle: Handle = None
    session_token: HandleToken = None
    option_id: Annotated[str | None, doc("The option that the user chose.")] = None
    auto_advance: Annotated[
        bool | None, doc("Take the default option: for checkpoints with blocking false, once autoAdvanceMs are over.")
    ] = None
    condition_not_met: Annotated[
        bool | None, doc("Dismiss the checkpoint: for those with a condition, when it does not hold.")
    ] = None


class GetSkill(Arguments, kw_only=True):
    session_token: SessionToken
    step_id: Annotated[
        str | None, doc("A step of the current activity or of its loops; left out: the activity's skill.")
    ] = None


class GetResource(Arguments, kw_only=True):
    session_token: SessionToken
    resource_id: Annotated[str, doc("A number, such as 03, or with a workflow, such as meta/01.")]


class GetTrace(Arguments, kw_only=True):
    session_token: SessionToken
    trace_tokens: Annotated[
        list[str] | None, doc("Trace tokens from next_activity, to be resolved; none: the whole trace.")
    ] = None
