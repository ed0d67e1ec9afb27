"""nav_start, nav_situation, nav_action and nav_checkpoint."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.navigator.contract.base import Arguments, Result, State, WorkflowId

LoopItem = Annotated[
    Any,
    Meta(
        description="Text, or any other JSON value.",
        extra_json_schema={"anyOf": [{"type": kind} for kind in ("object", "number", "boolean", "string")]},
    ),
]
ACTIONS = ("complete_step", "respond_to_checkpoint", "transition", "advance_loop", "report")


class NavStart(Arguments):
    """Arguments of nav_start."""

    workflow_id: WorkflowId
    initial_variables: Annotated[
        dict[str, Any] | None,
        Meta(description="Variables by name, over the defaults that the workflow declares."),
    ] = None
    state: Annotated[
        str | None,
        Meta(
            description="To run a workflow that availableActions offers with nav_start: the state of that answer. Its "
            "walk is suspended, and goes on in the answer that completes this workflow."
        ),
    ] = None


class NavSituation(Arguments):
    """Arguments of nav_situation."""

    state: State


class NavCheckpoint(Arguments):
    """Arguments of nav_checkpoint."""

    state: State


class NavAction(Arguments):
    """Arguments of nav_action."""

    state: State
    action: Annotated[
        str, Meta(description="What to do; one of availableActions.", extra_json_schema={"enum": list(ACTIONS)})
    ]
    step_id: Annotated[str | None, Meta(description="complete_step: the step that was done.")] = None
    checkpoint_id: Annotated[str | None, Meta(description="respond_to_checkpoint: the checkpoint.")] = None
    option_id: Annotated[str | None, Meta(description="respond_to_checkpoint: the option that was chosen.")] = None
    activity_id: Annotated[str | None, Meta(description="transition: where to go.")] = None
    loop_id: Annotated[str | None, Meta(description="advance_loop: the loop to begin or go on with.")] = None
    loop_items: Annotated[
        list[LoopItem] | None,
        Meta(
            description="advance_loop: what the loop goes over, needed to begin one that is offered with loopItems. An "
            "empty array: there is nothing, or no more, to go over."
        ),
    ] = None
    variables: Annotated[
        dict[str, Any] | None,
        Meta(
            description="What the work has shown, by variable: conditions of transitions, steps and checkpoints go by "
            "it, those of this action included. Kept only if the action succeeds. Action report does nothing else."
        ),
    ] = None


class Named(Result, kw_only=True):
    """An activity as positions show it."""

    id: Annotated[str, Meta(description="Its id.")]
    name: Annotated[str, Meta(description="Its name.")]


class StepPosition(Result, kw_only=True):
    """The step to be completed next."""

    id: Annotated[str, Meta(description="Its id.")]
    index: Annotated[int, Meta(description="Its number, from 1, in the activity or in the loop.")]
    name: Annotated[str, Meta(description="Its name.")]


class LoopPosition(Result, kw_only=True):
    """The innermost loop that is under way."""

    id: Annotated[str, Meta(description="Its id.")]
    name: Annotated[str, Meta(description="Its name.")]
    iteration: Annotated[int, Meta(description="The present iteration, from 1.")]
    total: Annotated[int, Meta(description="Number of iterations; at most so many, if a condition decides.")]
    item: Annotated[str, Meta(description="The present item, where known; JSON if it is no text.")] | UnsetType = UNSET


class Position(Result, kw_only=True):
    """Where a walk stands."""

    workflow: Annotated[str, Meta(description="Id of the workflow.")]
    activity: Annotated[Named, Meta(description="The present activity.")]
    step: Annotated[StepPosition, Meta(description="What is to be done next; absent: no step is left.")] | UnsetType = (
        UNSET
    )
    loop: Annotated[LoopPosition, Meta(description="The loop under way; absent: none.")] | UnsetType = UNSET


class Wanted(Result, kw_only=True):
    """A variable that decides whether something can be done."""

    name: Annotated[str, Meta(description="Its name, for the argument variables.")]
    wanted: Annotated[Any, Meta(description="The value that it must have; absent: any but null.")] = UNSET
    operator: (
        Annotated[str, Meta(description="!=, <, <=, > or >=: how it must compare with wanted; absent: equal.")]
        | UnsetType
    ) = UNSET


class Offered(Result, kw_only=True):
    """Something that may be done, must be done, or cannot be done now."""

    action: Annotated[str, Meta(description="An action of nav_action; or the tool get_resource or nav_start.")]
    step: Annotated[str, Meta(description="complete_step: step_id.")] | UnsetType = UNSET
    checkpoint: Annotated[str, Meta(description="respond_to_checkpoint: checkpoint_id.")] | UnsetType = UNSET
    activity: Annotated[str, Meta(description="transition: activity_id.")] | UnsetType = UNSET
    loop: Annotated[str, Meta(description="advance_loop: loop_id.")] | UnsetType = UNSET
    workflow: (
        Annotated[
            str,
            Meta(
                description="nav_start: workflow_id of a workflow that is run from here; pass this state with it. In "
                "blocked: the suspended workflow."
            ),
        ]
        | UnsetType
    ) = UNSET
    pass_context: (
        Annotated[
            list[str],
            Meta(
                description="nav_start: the variables that the workflow gets from this one; put those into "
                "initial_variables that have not been reported."
            ),
        ]
        | UnsetType
    ) = UNSET
    loop_items: Annotated[str, Meta(description="advance_loop: what loop_items must be.")] | UnsetType = UNSET
    variables: (
        Annotated[
            list[Wanted],
            Meta(description="Blocked: what to report, if it is so, to do this. A loop under way: what ends it."),
        ]
        | UnsetType
    ) = UNSET
    description: Annotated[str, Meta(description="What it is.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(description="Why it cannot be done now.")] | UnsetType = UNSET


class AvailableActions(Result, kw_only=True):
    """What can be done now."""

    required: Annotated[list[Offered], Meta(description="What comes next.")]
    optional: Annotated[list[Offered], Meta(description="What may be done as well.")]
    blocked: Annotated[list[Offered], Meta(description="What cannot be done now, and why.")]


class OfferedOption(Result, kw_only=True):
    """One answer to a checkpoint."""

    id: Annotated[str, Meta(description="For option_id.")]
    label: Annotated[str, Meta(description="What to show the user.")]
    description: Annotated[str, Meta(description="More about it.")] | UnsetType = UNSET


class ActiveCheckpoint(Result, kw_only=True):
    """A question that has to be answered before anything else is done."""

    id: Annotated[str, Meta(description="For checkpoint_id.")]
    message: Annotated[str, Meta(description="The question to the user.")]
    options: Annotated[list[OfferedOption], Meta(description="The answers to choose from.")]


class ActionError(Result, kw_only=True):
    """Why an action failed."""

    code: Annotated[str, Meta(description="Stable name of the failure.")]
    message: Annotated[str, Meta(description="What went wrong, in a sentence.")]


class Navigation(Result, kw_only=True):
    """What every navigation tool answers."""

    success: Annotated[bool, Meta(description="False: the action was not done, and the state is unchanged.")]
    position: Annotated[Position, Meta(description="Where the walk stands.")]
    message: Annotated[str, Meta(description="What was done, or where the walk stands, in a line.")]
    available_actions: Annotated[AvailableActions, Meta(description="What can be done now.")]
    checkpoint: Annotated[ActiveCheckpoint | None, Meta(description="The question that blocks all else; null: none.")]
    state: Annotated[str, Meta(description="Hand this back with the next call. Opaque.")]
    error: Annotated[ActionError, Meta(description="Why the action failed; absent: it did not.")] | UnsetType = UNSET
    completed: Annotated[bool, Meta(description="True: the workflow is completed; absent: it is not.")] | UnsetType = (
        UNSET
    )
    returned: (
        Annotated[
            dict[str, Any],
            Meta(description="What the workflow that this call completed gives back to the one that goes on."),
        ]
        | UnsetType
    ) = UNSET
    active: Annotated[bool, Meta(description="nav_checkpoint: whether a checkpoint is active.")] | UnsetType = UNSET
