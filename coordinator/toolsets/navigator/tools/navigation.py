"""nav_start, nav_situation, nav_action and nav_checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from coordinator.definitions import Definitions, Library, LoadedWorkflow
from coordinator.errors import ToolFailure, invalid
from coordinator.store.signing_keys import SigningKeys
from coordinator.toolsets.navigator.contract import navigation
from coordinator.toolsets.navigator.rules import actions, token, variables, view
from coordinator.toolsets.navigator.rules.actions import Refused, Walk
from coordinator.toolsets.navigator.rules.perform import Performed, begin, perform, start_child
from coordinator.toolsets.navigator.rules.state import State
from coordinator.toolsets.navigator.tools.shared import workflow_found
from coordinator.toolsets.timestamp import now
from coordinator.toolsets.tool import Call, Criticality, Tool

_START = (
    "Start a workflow. Returns your position, what you can do next (availableActions) and the state, an opaque token "
    "to pass with every further call. initial_variables sets variables that conditions use. Where availableActions has "
    "nav_start, pass the state too: the present workflow is suspended until the other one is completed."
)
_SITUATION = (
    "Where a workflow stands: position, available actions and the active checkpoint. Changes nothing. Use it to resume "
    "from a saved state."
)
_ACTION = (
    "Do one of the availableActions. complete_step needs step_id; respond_to_checkpoint needs checkpoint_id and the "
    "option_id that the user chose; transition needs activity_id; advance_loop needs loop_id, and loop_items to begin "
    "a loop; report needs variables, which every action may bring along. A blocking checkpoint must be answered first. "
    "If success is false, nothing was done and the state is unchanged."
)
_CHECKPOINT = (
    "The active checkpoint with its message and options, to present to the user. active: whether there is one."
)


def independent(library: Library) -> list[str]:
    """The workflows that can be started by themselves."""
    return [name for name, workflow in library.workflows.items() if workflow.initial_activity]


class Navigator:
    """Handlers of the tools that lead through workflows.

    Args:
        secrets: the keys that sign states.
    """

    def __init__(self, definitions: Definitions, secrets: SigningKeys) -> None:
        self._definitions = definitions
        self._secrets = secrets

    async def nav_start(self, call: Call, args: navigation.NavStart) -> navigation.Navigation:
        """Starts a workflow at its initial activity; with a state, within the walk that triggers it."""
        library = self._definitions.current
        workflow = workflow_found(library, args.workflow_id)
        given = args.initial_variables or {}
        declared = workflow.workflow.variables or ()
        variables.check(given, declared, "initial_variables")
        if args.state:
            return await self._perform(call, args.state, lambda parent: start_child(parent, workflow.id, given))
        first = workflow.activity(workflow.initial_activity or "")
        if first is None:
            raise ToolFailure("VALIDATION_ERROR", _no_beginning(workflow))
        values = variables.first_values(declared)
        for name, value in given.items():
            variables.assign(values, name, value)
        walk = actions.begun(workflow, first, values, now(), library.workflows)
        return await self._answer(call, begin(walk))

    async def nav_situation(self, call: Call, args: navigation.NavSituation) -> navigation.Navigation:
        """Shows the position of the walk and its available actions."""
        walk = await self._walk(call, args.state)
        return _shown(walk, view.situation(walk), args.state)

    async def nav_checkpoint(self, call: Call, args: navigation.NavCheckpoint) -> navigation.Navigation:
        """Shows the active checkpoint, if there is one."""
        walk = await self._walk(call, args.state)
        found = view.checkpoint(walk)
        message = "No active checkpoint" if found is None else f"Checkpoint: {found.id}"
        answer = _shown(walk, message, args.state)
        answer.active = found is not None
        return answer

    async def nav_action(self, call: Call, args: navigation.NavAction) -> navigation.Navigation:
        """Carries out one of the available actions. If it fails, returns the reason and the old state."""
        _check(args)

        def act(walk: Walk) -> Performed:
            variables.check(args.variables or {}, walk.workflow.workflow.variables, "variables")
            return perform(walk, args)

        return await self._perform(call, args.state, act)

    async def _perform(self, call: Call, state: str, act: Callable[[Walk], Performed]) -> navigation.Navigation:
        """The answer after an action; if it is rejected, the answer with the old state."""
        try:
            performed = act(await self._walk(call, state))
        except Refused as refusal:
            # The state may be partly changed, so it is decoded again from the token.
            before = await self._walk(call, state)
            error = navigation.ActionError(code=refusal.code, message=refusal.message)
            return _shown(before, f"Action failed: {refusal.message}", state, error)
        return await self._answer(call, performed)

    async def _walk(self, call: Call, state: str) -> Walk:
        """The walk of a token.

        Raises:
            ToolFailure: ``invalid_state``; RESOURCE_NOT_FOUND, the workflow no longer exists.
        """
        sealed = token.opened(state)
        earlier = False
        if await self._secrets.verify(token.PURPOSE, sealed.packed, sealed.mac, call.project) is None:
            earlier = True
            if await self._secrets.verify(token.earlier_purpose(call.project), sealed.packed, sealed.mac) is None:
                raise token.forged()
        held: State = token.unpacked(sealed.packed, earlier)
        library = self._definitions.current
        return actions.walk(workflow_found(library, held.workflow_id), held, now(), library.workflows)

    async def _answer(self, call: Call, performed: Performed) -> navigation.Navigation:
        """The answer with a token for the new state."""
        member = token.packed(performed.walk.stored())
        signature = await self._secrets.sign(token.PURPOSE, member, call.project)
        answer = _shown(performed.walk, performed.message, token.token(member, signature.mac))
        if performed.returned is not None:
            answer.returned = performed.returned
        return answer


def tools(definitions: Definitions, secrets: SigningKeys) -> tuple[Tool, ...]:
    handle = Navigator(definitions, secrets)
    return (
        Tool("nav_start", _START, navigation.NavStart, (navigation.Navigation,), handle.nav_start),
        Tool(
            "nav_situation",
            _SITUATION,
            navigation.NavSituation,
            (navigation.Navigation,),
            handle.nav_situation,
            read_only=True,
            idempotent=True,
            stateless=True,
        ),
        Tool(
            "nav_action",
            _ACTION,
            navigation.NavAction,
            (navigation.Navigation,),
            handle.nav_action,
            idempotent=True,
            criticality=Criticality.CRITICAL,
        ),
        Tool(
            "nav_checkpoint",
            _CHECKPOINT,
            navigation.NavCheckpoint,
            (navigation.Navigation,),
            handle.nav_checkpoint,
            read_only=True,
            idempotent=True,
            stateless=True,
        ),
    )


def _check(args: navigation.NavAction) -> None:
    """Rejects an action without its arguments.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    if args.action not in navigation.ACTIONS:
        raise invalid("action", f"must be one of {', '.join(navigation.ACTIONS)}")
    needed = {
        "complete_step": (args.step_id, "step_id is required for action complete_step"),
        "respond_to_checkpoint": (
            args.checkpoint_id and args.option_id,
            "checkpoint_id and option_id are required for action respond_to_checkpoint",
        ),
        "transition": (args.activity_id, "activity_id is required for action transition"),
        "advance_loop": (args.loop_id, "loop_id is required for action advance_loop"),
        "report": (args.variables, "variables is required for action report, and must not be empty"),
    }
    given, message = needed[args.action]
    if not given:
        raise ToolFailure("VALIDATION_ERROR", message)


def _shown(
    walk: Walk, message: str, state: str, error: navigation.ActionError | UnsetType = UNSET
) -> navigation.Navigation:
    offers = view.available(walk)
    # The refusal itself names what is needed.
    hint = view.hint(offers) if error is UNSET else ""
    return navigation.Navigation(
        success=error is UNSET,
        position=view.position(walk),
        message=f"{message}. {hint}" if hint else message,
        available_actions=offers,
        checkpoint=view.checkpoint(walk),
        state=state,
        error=error,
        completed=walk.state.status == "completed" or UNSET,
    )


def _no_beginning(workflow: LoadedWorkflow) -> str:
    if workflow.initial_activity:
        return (
            f"workflow_id: workflow '{workflow.id}' begins with activity '{workflow.initial_activity}' "
            "(initialActivity), whose definition is missing or cannot be read. Try again once it has been fixed, or "
            "start another workflow"
        )
    names = ", ".join(list(workflow.activities)[:10])
    return (
        f"workflow_id: workflow '{workflow.id}' has no initial activity (initialActivity), because its "
        f"activities are independent of each other: {names}. Call get_activity for one of them, or start another "
        "workflow"
    )
