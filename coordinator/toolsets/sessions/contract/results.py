"""Results of the tools that answer in JSON. The others answer only with text."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.waiting_reads import Waited


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A result or a part of one; fields that are UNSET are left out."""


NewToken = Annotated[str, Meta(description="The token for the next call.")]
Seconds = Annotated[int, Meta(description="When, in seconds since 1970.")]
CheckpointId = Annotated[str, Meta(description="The checkpoint.")]
OptionTaken = Annotated[str, Meta(description="The option taken; absent: it was dismissed.")]
EffectTaken = Annotated[
    dict[str, Any], Meta(description="The option's effect: setVariable, transitionTo, skipActivities.")
]
Dismissed = Annotated[bool, Meta(description="True: its condition was not met.")]
ActivityId = Annotated[str, Meta(description="The activity.")]


class Health(Result, kw_only=True):
    """Result of health_check."""

    status: Annotated[str, Meta(description="healthy.")]
    server: Annotated[str, Meta(description="The server's name.")]
    version: Annotated[str, Meta(description="The server's version.")]
    workflows_available: Annotated[int, Meta(description="How many workflows list_workflows shows.")]
    uptime_seconds: Annotated[int, Meta(description="Uptime of the process that answered, in seconds.")]


class WorkflowHead(Result, kw_only=True):
    """The workflow of a session."""

    id: Annotated[str, Meta(description="The workflow.")]
    version: Annotated[str, Meta(description="Its present version.")] | UnsetType = UNSET
    title: Annotated[str, Meta(description="Its name for people.")] | UnsetType = UNSET
    description: Annotated[str, Meta(description="What it is for.")] | UnsetType = UNSET


class WorkItem(Result, kw_only=True):
    """The work item that a session is bound to, and its claim."""

    item_id: Annotated[str, Meta(description="The item's UUID.")]
    fence_token: Annotated[int, Meta(description="Fence of the claim that the session goes forward under.")]
    claim_live: Annotated[bool, Meta(description="Whether that claim is live; if not, claim it and start_session.")]
    claimed_by: (
        Annotated[str, Meta(description="Who holds the item now; absent: nobody, or another agent.")] | UnsetType
    ) = UNSET
    claim_expires_at: (
        Annotated[str, Meta(description="When its present claim expires, UTC; absent: none.")] | UnsetType
    ) = UNSET


class Started(Result, kw_only=True):
    """Result of start_session."""

    workflow: Annotated[WorkflowHead, Meta(description="The session's workflow.")]
    session_token: NewToken
    inherited: Annotated[bool, Meta(description="True: an existing session goes on.")] | UnsetType = UNSET
    adopted: (
        Annotated[
            bool,
            Meta(
                description="True: the token's signature did not verify, or its session was unknown here; see warning."
            ),
        ]
        | UnsetType
    ) = UNSET
    recovered: (
        Annotated[
            bool,
            Meta(description="True: the session is new and has no history; restore your state from what you saved."),
        ]
        | UnsetType
    ) = UNSET
    warning: Annotated[str, Meta(description="What is unusual about the session that was returned.")] | UnsetType = (
        UNSET
    )
    work_item: Annotated[WorkItem, Meta(description="The work item it is bound to.")] | UnsetType = UNSET


class Parent(Result, kw_only=True):
    """The session that dispatched this one."""

    session_id: Annotated[str, Meta(description="Its id.")]
    workflow_id: Annotated[str, Meta(description="Its workflow.")]
    activity: Annotated[str, Meta(description="Where it stood then; empty: nowhere yet.")]
    version: Annotated[str, Meta(description="The version of its workflow.")]


class LastCheckpoint(Result, kw_only=True):
    """The checkpoint answered last."""

    activity_id: ActivityId
    timestamp: Seconds
    checkpoint_id: CheckpointId
    resolved_option: OptionTaken | UnsetType = UNSET
    resumed: Annotated[bool, Meta(description="False: call resume_checkpoint to go on after it.")]


class ActiveCheckpoint(Result, kw_only=True):
    """The pending checkpoint."""

    activity_id: ActivityId
    checkpoint_id: CheckpointId
    timestamp: Annotated[int, Meta(description="When it was yielded, in seconds since 1970; timers run from there.")]


class Answered(Result, kw_only=True):
    """A checkpoint and the last answer to it."""

    activity_id: ActivityId
    checkpoint_id: CheckpointId
    how: Annotated[
        str, Meta(extra_json_schema={"enum": ["option_id", "auto_advance", "condition_not_met"]}, description="How.")
    ]
    timestamp: Seconds
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    via: Annotated[str, Meta(description="client: an agent's client was asked, and may have answered by itself.")] | (
        UnsetType
    ) = UNSET
    current_visit: Annotated[bool, Meta(description="True: in the present visit of the current activity.")]
    resumed: Annotated[bool, Meta(description="False: call resume_checkpoint to go on after it.")]


class Status(Result, kw_only=True):
    """Result of get_workflow_status."""

    status: Annotated[
        str,
        Meta(
            description="blocked: a checkpoint waits for its answer.",
            extra_json_schema={"enum": ["active", "blocked", "completed"]},
        ),
    ]
    current_activity: Annotated[str, Meta(description="Where the session stands; none: nowhere yet.")]
    completed_activities: Annotated[list[str], Meta(description="Activities that were left, in order.")]
    workflow: Annotated[WorkflowHead, Meta(description="The session's workflow.")]
    parent: Annotated[Parent, Meta(description="Who dispatched it.")] | UnsetType = UNSET
    last_checkpoint: Annotated[LastCheckpoint, Meta(description="The one answered last.")] | UnsetType = UNSET
    active_checkpoint: (
        Annotated[ActiveCheckpoint, Meta(description="The one that waits; session_token is its handle.")] | UnsetType
    ) = UNSET
    answered_checkpoints: (
        Annotated[list[Answered], Meta(description="If asked for: all that were answered.")] | UnsetType
    ) = UNSET
    work_item: Annotated[WorkItem, Meta(description="The work item it is bound to.")] | UnsetType = UNSET
    session_token: NewToken
    waited: Annotated[Waited, Meta(description="With waitMs.")] | UnsetType = UNSET


class Moved(Result, kw_only=True):
    """Result of next_activity."""

    activity_id: ActivityId
    name: Annotated[str, Meta(description="Its name for people.")]
    session_token: NewToken


class Yielded(Result, kw_only=True):
    """Result of yield_checkpoint."""

    status: Annotated[
        str,
        Meta(
            description="yielded; answered: an agent that had the session before got this answer, do not ask again.",
            extra_json_schema={"enum": ["yielded", "answered"]},
        ),
    ]
    checkpoint_id: CheckpointId
    checkpoint_handle: Annotated[str, Meta(description="For the orchestrator, in a checkpoint_yield block.")]
    message: Annotated[str, Meta(description="What to do now.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Resumed(Result, kw_only=True):
    """Result of resume_checkpoint."""

    status: Annotated[str, Meta(description="resumed.")]
    message: Annotated[str, Meta(description="What to do now.")]
    session_token: NewToken
    checkpoint_id: CheckpointId
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Settled(Result, kw_only=True):
    """What became of an answer to a checkpoint."""

    checkpoint_id: CheckpointId
    resolved: Annotated[bool, Meta(description="True.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Responded(Result, kw_only=True):
    """Result of respond_checkpoint."""

    checkpoint_id: CheckpointId
    resolved: Annotated[bool, Meta(description="True.")]
    checkpoint_handle: Annotated[str, Meta(description="For the worker: its token to go on with.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class TraceEvent(Result, kw_only=True):
    """One call in a trace."""

    trace_id: Annotated[str, Meta(description="The session.")] = msgspec.field(name="traceId")
    span_id: Annotated[str, Meta(description="The event.")] = msgspec.field(name="spanId")
    name: Annotated[str, Meta(description="The tool.")]
    ts: Annotated[int, Meta(description="When, in seconds since 1970.")]
    ms: Annotated[float, Meta(description="How long the call had taken when it was noted, in milliseconds.")]
    s: Annotated[str, Meta(description="What became of it.", extra_json_schema={"enum": ["ok", "error"]})]
    wf: Annotated[str, Meta(description="The workflow.")]
    act: Annotated[str, Meta(description="The activity of the token that was passed; empty: none yet.")]
    aid: Annotated[str, Meta(description="The agent.")]
    err: (
        Annotated[str, Meta(description="Why it failed; for start_session how the session was obtained.")] | UnsetType
    ) = UNSET
    vw: Annotated[list[str], Meta(description="Its warnings, or the workflow dispatched.")] | UnsetType = UNSET
    psid: Annotated[str, Meta(description="The parent session.")] | UnsetType = UNSET


class Trace(Result, kw_only=True):
    """Result of get_trace."""

    trace_id: Annotated[str, Meta(description="The session.")] = msgspec.field(name="traceId")
    source: Annotated[
        str,
        Meta(
            description="memory: what the fleet keeps of the session.",
            extra_json_schema={"enum": ["tokens", "memory"]},
        ),
    ]
    tracing_enabled: Annotated[bool, Meta(description="True; absent for tokens.")] | UnsetType = UNSET
    event_count: Annotated[int, Meta(description="How many events follow.")]
    events: Annotated[list[TraceEvent], Meta(description="The events, oldest first.")]
    session_token: NewToken
    token_errors: Annotated[list[str], Meta(description="Why some tokens were left out.")] | UnsetType = UNSET
