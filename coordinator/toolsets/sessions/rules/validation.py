"""What is wrong with a call without stopping it (seed 000, validation): the warnings and their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import conditions
from coordinator.definitions.library import LoadedWorkflow
from coordinator.definitions.model import TERMINALS, Activity
from coordinator.toolsets.sessions.contract.arguments import ActivityReport, StepReport

END = "__terminal__"
"""The end that is always understood, also where an activity that may be the last names none."""


class Validation(msgspec.Struct, omit_defaults=True):
    """``_meta.validation`` of a result."""

    status: str
    warnings: list[str] = msgspec.field(default_factory=list)
    errors: list[str] | UnsetType = UNSET


class Way(NamedTuple):
    """One way out of an activity, and what has to hold for it ('' for nothing)."""

    to: str
    condition: str
    is_default: bool


def validation(warnings: Sequence[str]) -> dict[str, object]:
    """``_meta.validation`` for these warnings."""
    return {"status": "warning" if warnings else "valid", "warnings": list(warnings)}


def ways(activity: Activity) -> Iterator[Way]:
    """Every way out: transitions, then branches of decisions, then options of checkpoints."""
    for transition in activity.transitions:
        condition = transition.condition
        yield Way(transition.to, "" if condition is UNSET else conditions.text(condition), transition.is_default)
    for decision in activity.decisions:
        for branch in decision.branches:
            if branch.transition_to is not UNSET:
                text = "" if branch.condition is UNSET else conditions.text(branch.condition)
                yield Way(branch.transition_to, text, branch.is_default)
    for checkpoint in activity.checkpoints:
        for option in checkpoint.options:
            target = option.effects.transition_to
            if target is not UNSET:
                yield Way(target, f"checkpoint:{checkpoint.id}:{option.id}", False)


def ends(activity: Activity | None, target: str) -> bool:
    """Whether going to ``target`` completes the session: an end, from an activity that may be the last one."""
    if target not in TERMINALS or activity is None:
        return False
    targets = activity.targets()
    return not targets or (target == END and not TERMINALS.isdisjoint(targets)) or target in targets


def drift(version: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Whether the definition is another one than that which the session began with."""
    if version and workflow.version and version != workflow.version:
        yield (
            f"Workflow version drift: session started with v{version} but current definition is "
            f"v{workflow.version}. Load the workflow again before relying on what was read earlier."
        )


def transition(act: str, target: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Whether the activity may be gone to from where the token is."""
    if not act:
        initial = workflow.initial_activity
        if initial and target != initial:
            yield f"First activity must be '{initial}' but '{target}' was requested. Begin with initialActivity."
        return
    activity = workflow.activity(act)
    if act == target or activity is None or ends(activity, target):
        return
    targets = activity.targets()
    if targets and target not in targets:
        yield (
            f"Activity '{target}' is not a direct transition from '{act}'. Valid transitions: [{', '.join(targets)}]"
        )


def condition(act: str, target: str, claimed: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Whether the condition claimed for a transition is the one that the workflow states."""
    activity = workflow.activity(act) if act and act != target else None
    way = None if activity is None else next((way for way in ways(activity) if way.to == target), None)
    if way is None:
        return
    if claimed in ("", "default"):
        if way.condition and not way.is_default:
            said = "'default'" if claimed else "no condition"
            yield f"Transition to '{target}' requires condition '{way.condition}' but agent claimed {said}."
    elif way.is_default and not way.condition:
        yield f"Transition to '{target}' is the default (no condition) but agent claimed condition '{claimed}'."
    elif way.condition and way.condition != claimed:
        yield (
            f"Condition mismatch for transition to '{target}': the workflow has '{way.condition}' but agent claimed "
            f"'{claimed}'."
        )


def step_manifest(act: str, manifest: Sequence[StepReport] | None, workflow: LoadedWorkflow) -> Iterator[str]:
    """Whether the steps of the activity that is left were all reported, in order, with what came of them."""
    if not act:
        return
    if manifest is None:
        yield f"No step_manifest provided for previous activity '{act}'. Report each of its steps with its output."
        return
    activity = workflow.activity(act)
    if activity is None:
        yield f"Cannot validate manifest: activity '{act}' not found"
        return
    expected = [step.id for step in activity.steps]
    if not expected:
        return
    given = [report.step_id for report in manifest]
    known, reported = set(expected), set(given)
    if missing := [step for step in expected if step not in reported]:
        yield f"Missing steps in manifest: [{', '.join(missing)}]"
    if unexpected := [step for step in given if step not in known]:
        yield f"Unexpected steps in manifest: [{', '.join(unexpected)}]"
    for place, (want, got) in enumerate(zip(expected, given, strict=False)):
        if want != got:
            yield f"Step order mismatch at position {place}: expected '{want}' but got '{got}'"
    for report in manifest:
        if not report.output.strip():
            yield f"Step '{report.step_id}' has empty output"


def activity_manifest(manifest: Sequence[ActivityReport] | None, workflow: LoadedWorkflow) -> Iterator[str]:
    """Whether what is said of the activities done so far can be."""
    if manifest is None:
        return
    if not manifest:
        yield "Empty activity_manifest provided. Leave it out if no activity is done."
    for report in manifest:
        activity = workflow.activity(report.activity_id)
        if activity is None:
            yield f"Activity manifest references unknown activity '{report.activity_id}'"
        if not report.outcome.strip():
            yield f"Activity '{report.activity_id}' has empty outcome"
        claimed = report.transition_condition
        if activity is None or not claimed:
            continue
        known = list(ways(activity))
        if known and not any(way.condition == claimed or (claimed == "default" and way.is_default) for way in known):
            yield (
                f"Activity '{report.activity_id}' claims transition condition '{claimed}' not found in workflow "
                "transitions"
            )
