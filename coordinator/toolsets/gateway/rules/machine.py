"""State machines: which transitions are possible in a state, for whom, and which is automatic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.settings.sections.gateway.executor import Executor
from coordinator.settings.sections.gateway.model import State, Transition, Workflow
from coordinator.toolsets.gateway.rules.graph import ends, targets
from coordinator.toolsets.gateway.rules.guards import HUMAN, SYSTEM, Circumstances, Report, all_hold, refused
from coordinator.toolsets.gateway.rules.schemas.inputs import with_defaults
from coordinator.toolsets.gateway.rules.scope import Scope, present

SUCCESS, FAILURE, TIMED_OUT = "success", "failure", "timed_out"
NO_ARGUMENTS: Mapping[str, Any] = {}

EVIDENCE: Mapping[str, str] = {
    "cli": "cli_output",
    "rest": "rest_call",
    "mcp": "mcp_tool_result",
    "human": "human_request",
    "builtin": "tool_result",
    "flow": "flow_result",
}
"""Executor kind -> the kind of evidence that its success records."""


def actor_problem(transition: Transition, roles: Sequence[str]) -> str:
    """Why a principal with these roles may not take a transition, by the actor that it requires; empty if it may."""
    if transition.actor == "human" and HUMAN not in roles:
        return "The transition requires a human principal, but the submitter isn't human."
    if transition.actor == "system" and SYSTEM not in roles:
        return "The transition requires the role 'system', which the submitter does not have."
    return ""


def chains(state: State) -> bool:
    """Whether a state is left automatically, because all its transitions are deterministic."""
    return bool(state.transitions) and all(way.actor == "deterministic" for way in state.transitions.values())


def default_arguments(transition: Transition) -> dict[str, Any]:
    """The arguments of an automatic transition: the defaults of its schema."""
    return with_defaults(transition.input_schema, {})


def choice(state: State, at: Circumstances, report: Report) -> str | None:
    """The only deterministic transition whose guards hold; None if there is none, or if there are several."""
    possible = [
        name
        for name, transition in state.transitions.items()
        if all_hold(
            transition.guards, at._replace(scope=at.scope._replace(arguments=default_arguments(transition))), report
        )
    ]
    return possible[0] if len(possible) == 1 else None


def offered(workflow: Workflow, state_name: str, at: Circumstances) -> Iterator[tuple[str, Transition]]:
    """The transitions shown to a principal by the state's link filter: none for other actors, none that a guard
    rejects."""
    state = workflow.states[state_name]
    if ends(state):
        return
    links = state.link_filter or workflow.link_filter
    for name, transition in state.transitions.items():
        if transition.actor == "deterministic":
            continue
        if transition.actor == "system" and actor_problem(transition, at.principal.roles):
            continue
        if links == "legal" and refused(transition.guards, at):
            continue
        if links == "byGuards":
            if actor_problem(transition, at.principal.roles):
                continue
            if not all_hold(transition.guards, at._replace(scope=at.scope._replace(arguments=NO_ARGUMENTS))):
                continue
        yield name, transition


def stuck(workflow: Workflow, state_name: str, at: Circumstances) -> Iterator[tuple[str, Transition]]:
    """The transitions to offer in a state that was not left automatically: those that no guard rejects."""
    state = workflow.states[state_name]
    everything = (state.link_filter or workflow.link_filter) == "all"
    for name, transition in state.transitions.items():
        if everything or not refused(transition.guards, at):
            yield name, transition


def executes(workflow: Workflow, name: str) -> bool:
    """Whether a transition of this name may execute something, in any state."""
    return _any_executes(workflow, [state.transitions[name] for state in workflow.states.values()
                                if name in state.transitions])  # fmt: skip


def entry_executes(workflow: Workflow, name: str) -> bool:
    """Whether entering a state, or leaving it automatically, may execute something."""
    return _any_executes(workflow, [Transition(target=name)])


def _any_executes(workflow: Workflow, waiting: list[Transition]) -> bool:
    """Whether any of the transitions, or an automatic one after them, needs a worker."""
    seen: set[str] = set()
    while waiting:
        transition = waiting.pop()
        if _needs_worker(transition.executor):
            return True
        for name in targets(transition):
            if name in seen:
                continue
            seen.add(name)
            state = workflow.states[name]
            if state.on_enter is not None and _needs_worker(state.on_enter.executor):
                return True
            if chains(state):
                waiting += state.transitions.values()
    return False


def _needs_worker(executor: Executor | None) -> bool:
    # Asking people executes nothing.
    return executor is not None and executor.kind != "human"


def prefilled(transition: Transition, scope: Scope) -> dict[str, Any]:
    """The arguments that a link proposes. An argument whose path leads to nothing is left out."""
    return present(transition.prefill, scope._replace(arguments={}))


def outcome_of(workflow: Workflow, state_name: str) -> str:
    """The outcome of a workflow that ends in a state; empty if the state does not end it."""
    state = workflow.states[state_name]
    if not ends(state):
        return ""
    return state.outcome or SUCCESS
