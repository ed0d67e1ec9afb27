"""nav_start, nav_situation, nav_action and nav_checkpoint."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.navigator.contract.base import Arguments, Result, State, WorkflowId

LoopItem = Annotated[
    Any,
    doc(
        "Text, or any other JSON value.",
        published={"anyOf": [{"type": kind} for kind in ("object", "number", "boolean", "string")]},
    ),
]
ACTIONS = ("complete_step", "respond_to_checkpoint", "transition", "advance_loop", "report")


class NavStart(Arguments):
    workflow_id: WorkflowId
    initial_variables: Annotated[
        dict[str, Any] | None, doc("Variables by name, over the defaults that the workflow declares.")
    ] = None
    state: Annotated[
        str | None,
        doc(
            "To run a workflow that availableActions offers with nav_start: the state of that answer. Its "
            "walk is suspended, and goes on in the answer that completes this workflow."
        ),
    ] = None


class NavSituation(Arguments):
    state: State


class NavCheckpoint(Arguments):
    state: State


class NavAction(Arguments):
    state: State
    action: Annotated[str, doc("What to do; one of availableActions.", enum=ACTIONS)]
    step_id: Annotated[str | None, doc("complete_step: the step that was done.")] = None
    checkpoint_id: Annotated[str | None, doc("respond_to_checkpoint: the checkpoint.")] = None
    option_id: Annotated[str | None, doc("respond_to_checkpoint: the option that was chosen.")] = None
    activity_id: Annotated[str | None, doc("transition: where to go.")] = None
    loop_id: Annotated[str | None, doc("advance_loop: the loop to begin or go on with.")] = None
    loop_items: Annotated[
        list[LoopItem] | None,
        doc(
            "advance_loop: what the loop goes over, needed to begin one that is offered with loopItems. An "
            "empty array: there is nothing, or no more, to go over."
        ),
    ] = None
    variables: Annotated[
        dict[str, Any] | None,
        doc(
            "What the work has shown, by variable: conditions of transitions, steps and checkpoints go by "
            "it, those of this action included. Kept only if the action succeeds. Action report does nothing else."
        ),
    ] = None


class Named(Result, kw_only=True):
    """An activity as positions show it."""

    id: Annotated[str, doc("Its id.")]
    name: Annotated[str, doc("Its name.")]


class StepPosition(Result, kw_only=True):
    """The step to be completed next."""

    id: Annotated[str, doc("Its id.")]
    index: Annotated[int, doc("Its number, from 1, in the activity or in the loop.")]
    name: Annotated[str, doc("Its name.")]


class LoopPosition(Result, kw_only=True):
    """The innermost loop that is under way."""

    id: Annotated[str, doc("Its id.")]
    name: Annotated[str, doc("Its name.")]
    iteration: Annotated[int, doc("The present iteration, from 1.")]
    total: Annotated[int, doc("Number of iterations; at most so many, if a condition decides.")]
    item: Annotated[str, doc("The present item, where known; JSON if it is no text.")] | UnsetType = UNSET


class Position(Result, kw_only=True):
    """Where a walk stands."""

    workflow: Annotated[str, doc("Id of the workflow.")]
    activity: Annotated[Named, doc("The present activity.")]
    step: Annotated[StepPosition, doc("What is to be done next; absent: no step is left.")] | UnsetType = UNSET
    loop: Annotated[LoopPosition, doc("The loop under way; absent: none.")] | UnsetType = UNSET


class Wanted(Result, kw_only=True):
    """A variable that decides whether something can be done."""

    name: Annotated[str, doc("Its name, for the argument variables.")]
    wanted: Annotated[Any, doc("The value that it must have; absent: any but null.")] = UNSET
    operator: Annotated[str, doc("!=, <, <=, > or >=: how it must compare with wanted; absent: equal.")] | UnsetType = (
        UNSET
    )


class Offered(Result, kw_only=True):
    """Something that may be done, must be done, or cannot be done now."""

    action: Annotated[str, doc("An action of nav_action; or the tool get_resource or nav_start.")]
    step: Annotated[str, doc("complete_step: step_id.")] | UnsetType = UNSET
    checkpoint: Annotated[str, doc("respond_to_checkpoint: checkpoint_id.")] | UnsetType = UNSET
    activity: Annotated[str, doc("transition: activity_id.")] | UnsetType = UNSET
    loop: Annotated[str, doc("advance_loop: loop_id.")] | UnsetType = UNSET
    workflow: (
        Annotated[
            str,
            doc(
                "nav_start: workflow_id of a workflow that is run from here; pass this state with it. In "
                "blocked: the suspended workflow."
            ),
        ]
        | UnsetType
    ) = UNSET
    pass_context: (
        Annotated[
            list[str],
            doc(
                "nav_start: the variables that the workflow gets from this one; put those into "
                "initial_variables that have not been reported."
            ),
        ]
        | UnsetType
    ) = UNSET
    loop_items: Annotated[str, doc("advance_loop: what loop_items must be.")] | UnsetType = UNSET
    variables: (
        Annotated[
            list[Wanted], doc("Blocked: what to report, if it is so, to do this. A loop under way: what ends it.")
        ]
        | UnsetType
    ) = UNSET
    description: Annotated[str, doc("What it is.")] | UnsetType = UNSET
    reason: Annotated[str, doc("Why it cannot be done now.")] | UnsetType = UNSET


class AvailableActions(Result, kw_only=True):
    """What can be done now."""

    required: Annotated[list[Offered], doc("What comes next.")]
    optional: Annotated[list[Offered], doc("What may be done as well.")]
    blocked: Annotated[list[Offered], doc("What cannot be done now, and why.")]


class OfferedOption(Result, kw_only=True):
    """One answer to a checkpoint."""

    id: Annotated[str, doc("For option_id.")]
    label: Annotated[str, doc("What to show the user.")]
    description: Annotated[str, doc("More about it.")] | UnsetType = UNSET


class ActiveCheckpoint(Result, kw_only=True):
    """A question that has to be answered before anything else is done."""

    id: Annotated[str, doc("For checkpoint_id.")]
    message: Annotated[str, doc("The question to the user.")]
    options: Annotated[list[OfferedOption], doc("The answers to choose from.")]


class ActionError(Result, kw_only=True):
    """Why an action failed."""

    code: Annotated[str, doc("Stable name of the failure.")]
    message: Annotated[str, doc("What went wrong, in a sentence.")]


class Navigation(Result, kw_only=True):
    """What every navigation tool answers."""

    success: Annotated[bool, doc("False: the action was not done, and the state is unchanged.")]
    position: Annotated[Position, doc("Where the walk stands.")]
    message: Annotated[str, doc("What was done, or where the walk stands, in a line.")]
    available_actions: Annotated[AvailableActions, doc("What can be done now.")]
    checkpoint: Annotated[ActiveCheckpoint | None, doc("The question that blocks all else; null: none.")]
    state: Annotated[str, doc("Hand this back with the next call. Opaque.")]
    error: Annotated[ActionError, doc("Why the action failed; absent: it did not.")] | UnsetType = UNSET
    completed: Annotated[bool, doc("True: the workflow is completed; absent: it is not.")] | UnsetType = UNSET
    returned: (
        Annotated[dict[str, Any], doc("What the workflow that this call completed gives back to the one that goes on.")]
        | UnsetType
    ) = UNSET
    active: Annotated[bool, doc("nav_checkpoint: whether a checkpoint is active.")] | UnsetType = UNSET
