"""Checks the graph of a workflow's states: targets that do not exist, states that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from coordinator.settings.problems import KeyPath, unknown
from coordinator.settings.sections.gateway.model import State, Transition, Workflow
from coordinator.toolsets.gateway.rules.resolve import executors_of

Level = Literal["error", "warning"]


class Flaw(NamedTuple):
    """Something wrong (error) or odd (warning) in the section ``gateway``."""

    level: Level
    path: KeyPath
    """The place in the settings; for findings of this module, the place in the workflow."""
    sentence: str


def ends(state: State) -> bool:
    """Whether a workflow ends in a state: the state says so, or there is no way out."""
    return state.terminal or not state.transitions


def targets(transition: Transition) -> tuple[str, ...]:
    """The states that a transition may lead to."""
    return (transition.target, *(branch.target for branch in transition.branches))


def problems(workflow: Workflow) -> Iterator[Flaw]:
    states = workflow.states
    if workflow.initial_state not in states:
        yield Flaw("error", ("initialState",), unknown("state", workflow.initial_state, states))
    if workflow.on_timeout is not None and workflow.on_timeout.target not in states:
        yield Flaw("error", ("onTimeout", "target"), unknown("state", workflow.on_timeout.target, states))
    if workflow.timeout_ms is not None and workflow.on_timeout is None:
        yield Flaw("warning", ("timeoutMs",), "there is no onTimeout, so it ends in whatever state it is in then")
    if workflow.on_timeout is not None and workflow.timeout_ms is None:
        yield Flaw("warning", ("onTimeout",), "there is no timeoutMs, so it never happens")
    for name, state in states.items():
        at: KeyPath = ("states", name)
        for key, transition in state.transitions.items():
            yield from _dangling(transition, states, (*at, "transitions", key))
        if ends(state) and not state.terminal and workflow.on_timeout is None:
            yield Flaw("warning", at, "nothing leads out of it, so workflows end here; say so with terminal: true")
        yield from _deterministic(state, at)
    reached = _reached(workflow)
    for name in states:
        if name not in reached:
            yield Flaw("warning", ("states", name), "no transition leads to it")


def recursions(name: str, workflows: Mapping[str, Workflow]) -> Iterator[list[str]]:
    """The cycles in which a workflow starts itself as a sub-workflow."""
    waiting, seen = [[name]], {name}
    while waiting:
        way = waiting.pop()
        for inner in sub_workflows(workflows[way[-1]]):
            if inner == name:
                yield [*way, inner]
                return
            if inner in workflows and inner not in seen:
                seen.add(inner)
                waiting.append([*way, inner])


def sub_workflows(workflow: Workflow) -> Iterator[str]:
    for _, executor, _ in executors_of(workflow):
        if executor.kind == "workflow" and executor.definition_id is not None:
            yield executor.definition_id


def _dangling(transition: Transition, states: Mapping[str, State], at: KeyPath) -> Iterator[Flaw]:
    if transition.target not in states:
        yield Flaw("error", (*at, "target"), unknown("state", transition.target, states))
    for number, branch in enumerate(transition.branches):
        if branch.target not in states:
            yield Flaw("error", (*at, "branches", number, "target"), unknown("state", branch.target, states))


def _deterministic(state: State, at: KeyPath) -> Iterator[Flaw]:
    kinds = {transition.actor for transition in state.transitions.values()}
    if "deterministic" not in kinds:
        return
    if len(kinds) > 1:
        yield Flaw(
            "warning",
            at,
            "deterministic transitions are automatic only where all are deterministic; here agents have to submit them",
        )
        return
    unguarded = [key for key, transition in state.transitions.items() if not transition.guards]
    if len(state.transitions) > 1 and unguarded:
        yield Flaw(
            "warning",
            at,
            f"exactly one deterministic transition must be possible, but {', '.join(unguarded)} always is",
        )


def _reached(workflow: Workflow) -> set[str]:
    waiting = [workflow.initial_state]
    if workflow.on_timeout is not None:
        waiting.append(workflow.on_timeout.target)
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached or name not in workflow.states:
            continue
        reached.add(name)
        for transition in workflow.states[name].transitions.values():
            waiting += targets(transition)
    return reached
