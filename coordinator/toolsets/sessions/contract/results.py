"""Results of the tools that answer in JSON. The others answer only with text."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.waiting.reads import Waited


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A result or a part of one; fields that are UNSET are left out."""


NewToken = Annotated[str, doc("The token for the next call.")]
Seconds = Annotated[int, doc("When, in seconds since 1970.")]
CheckpointId = Annotated[str, doc("The checkpoint.")]
OptionTaken = Annotated[str, doc("The option taken; absent: it was dismissed.")]
EffectTaken = Annotated[dict[str, Any], doc("The option's effect: setVariable, transitionTo, skipActivities.")]
Dismissed = Annotated[bool, doc("True: its condition was not met.")]
ActivityId = Annotated[str, doc("The activity.")]


class Health(Result, kw_only=True):
    status: Annotated[str, doc("healthy.")]
    server: Annotated[str, doc("The server's name.")]
    version: Annotated[str, doc("The server's version.")]
    workflows_available: Annotated[int, doc("How many workflows list_workflows shows.")]
    uptime_seconds: Annotated[int, doc("Uptime of the process that answered, in seconds.")]


class WorkflowHead(Result, kw_only=True):
    """The workflow of a session."""

    id: Annotated[str, doc("The workflow.")]
    version: Annotated[str, doc("Its present version.")] | UnsetType = UNSET
    title: Annotated[str, doc("Its name for people.")] | UnsetType = UNSET
    description: Annotated[str, doc("What it is for.")] | UnsetType = UNSET


class WorkItem(Result, kw_only=True):
    """The work item that a session is bound to, and its claim."""

    item_id: Annotated[str, doc("The item's UUID.")]
    fence_token: Annotated[int, doc("Fence of the claim that the session goes forward under.")]
    claim_live: Annotated[bool, doc("Whether that claim is live; if not, claim it and start_session.")]
    claimed_by: Annotated[str, doc("Who holds the item now; absent: nobody, or another agent.")] | UnsetType = UNSET
    claim_expires_at: Annotated[str, doc("When its present claim expires, UTC; absent: none.")] | UnsetType = UNSET


class Started(Result, kw_only=True):
    workflow: Annotated[WorkflowHead, doc("The session's workflow.")]
    session_token: NewToken
    inherited: Annotated[bool, doc("True: an existing session goes on.")] | UnsetType = UNSET
    adopted: (
        Annotated[
            bool, doc("True: the token's signature did not verify, or its session was unknown here; see warning.")
        ]
        | UnsetType
    ) = UNSET
    recovered: (
        Annotated[bool, doc("True: the session is new and has no history; restore your state from what you saved.")]
        | UnsetType
    ) = UNSET
    warning: Annotated[str, doc("What is unusual about the session that was returned.")] | UnsetType = UNSET
    work_item: Annotated[WorkItem, doc("The work item it is bound to.")] | UnsetType = UNSET


class Parent(Result, kw_only=True):
    """The session that dispatched this one."""

    session_id: Annotated[str, doc("Its id.")]
    workflow_id: Annotated[str, doc("Its workflow.")]
    activity: Annotated[str, doc("Where it stood then; empty: nowhere yet.")]
    version: Annotated[str, doc("The version of its workflow.")]


class LastCheckpoint(Result, kw_only=True):
    """The checkpoint answered last."""

    activity_id: ActivityId
    timestamp: Seconds
    checkpoint_id: CheckpointId
    resolved_option: OptionTaken | UnsetType = UNSET
    resumed: Annotated[bool, doc("False: call resume_checkpoint to go on after it.")]


class ActiveCheckpoint(Result, kw_only=True):
    """The pending checkpoint."""

    activity_id: ActivityId
    checkpoint_id: CheckpointId
    timestamp: Annotated[int, doc("When it was yielded, in seconds since 1970; timers run from there.")]


class Answered(Result, kw_only=True):
    """A checkpoint and the last answer to it."""

    activity_id: ActivityId
    checkpoint_id: CheckpointId
    how: Annotated[str, doc("How.", enum=["option_id", "auto_advance", "condition_not_met"])]
    timestamp: Seconds
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    via: Annotated[str, doc("client: an agent's client was asked, and may have answered by itself.")] | (
        UnsetType
    ) = UNSET
    current_visit: Annotated[bool, doc("True: in the present visit of the current activity.")]
    resumed: Annotated[bool, doc("False: call resume_checkpoint to go on after it.")]


class Status(Result, kw_only=True):
    """Result of get_workflow_status."""

    status: Annotated[str, doc("blocked: a checkpoint waits for its answer.", enum=["active", "blocked", "completed"])]
    current_activity: Annotated[str, doc("Where the session stands; none: nowhere yet.")]
    completed_activities: Annotated[list[str], doc("Activities that were left, in order.")]
    workflow: Annotated[WorkflowHead, doc("The session's workflow.")]
    parent: Annotated[Parent, doc("Who dispatched it.")] | UnsetType = UNSET
    last_checkpoint: Annotated[LastCheckpoint, doc("The one answered last.")] | UnsetType = UNSET
    active_checkpoint: (
        Annotated[ActiveCheckpoint, doc("The one that waits; session_token is its handle.")] | UnsetType
    ) = UNSET
    answered_checkpoints: Annotated[list[Answered], doc("If asked for: all that were answered.")] | UnsetType = UNSET
    work_item: Annotated[WorkItem, doc("The work item it is bound to.")] | UnsetType = UNSET
    session_token: NewToken
    waited: Annotated[Waited, doc("With waitMs.")] | UnsetType = UNSET


class Moved(Result, kw_only=True):
    """Result of next_activity."""

    activity_id: ActivityId
    name: Annotated[str, doc("Its name for people.")]
    session_token: NewToken


class Yielded(Result, kw_only=True):
    status: Annotated[
        str,
        doc(
            "yielded; answered: an agent that had the session before got this answer, do not ask again.",
            enum=["yielded", "answered"],
        ),
    ]
    checkpoint_id: CheckpointId
    checkpoint_handle: Annotated[str, doc("For the orchestrator, in a checkpoint_yield block.")]
    message: Annotated[str, doc("What to do now.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Resumed(Result, kw_only=True):
    status: Annotated[str, doc("resumed.")]
    message: Annotated[str, doc("What to do now.")]
    session_token: NewToken
    checkpoint_id: CheckpointId
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Settled(Result, kw_only=True):
    """What became of an answer to a checkpoint."""

    checkpoint_id: CheckpointId
    resolved: Annotated[bool, doc("True.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class Responded(Result, kw_only=True):
    checkpoint_id: CheckpointId
    resolved: Annotated[bool, doc("True.")]
    checkpoint_handle: Annotated[str, doc("For the worker: its token to go on with.")]
    resolved_option: OptionTaken | UnsetType = UNSET
    effect: EffectTaken | UnsetType = UNSET
    dismissed: Dismissed | UnsetType = UNSET


class TraceEvent(Result, kw_only=True):
    """One call in a trace."""

    trace_id: Annotated[str, doc("The session.")] = msgspec.field(name="traceId")
    span_id: Annotated[str, doc("The event.")] = msgspec.field(name="spanId")
    name: Annotated[str, doc("The tool.")]
    ts: Annotated[int, doc("When, in seconds since 1970.")]
    ms: Annotated[float, doc("How long the call had taken when it was noted, in milliseconds.")]
    s: Annotated[str, doc("What became of it.", enum=["ok", "error"])]
    wf: Annotated[str, doc("The workflow.")]
    act: Annotated[str, doc("The activity of the token that was passed; empty: none yet.")]
    aid: Annotated[str, doc("The agent.")]
    err: Annotated[str, doc("Why it failed; for start_session how the session was obtained.")] | UnsetType = UNSET
    vw: Annotated[list[str], doc("Its warnings, or the workflow dispatched.")] | UnsetType = UNSET
    psid: Annotated[str, doc("The parent session.")] | UnsetType = UNSET


class Trace(Result, kw_only=True):
    trace_id: Annotated[str, doc("The session.")] = msgspec.field(name="traceId")
    source: Annotated[str, doc("memory: what the fleet keeps of the session.", enum=["tokens", "memory"])]
    tracing_enabled: Annotated[bool, doc("True; absent for tokens.")] | UnsetType = UNSET
    event_count: Annotated[int, doc("How many events follow.")]
    events: Annotated[list[TraceEvent], doc("The events, oldest first.")]
    session_token: NewToken
    token_errors: Annotated[list[str], doc("Why some tokens were left out.")] | UnsetType = UNSET
