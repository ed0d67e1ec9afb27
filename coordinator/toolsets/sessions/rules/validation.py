"""Warnings about calls that are carried out nevertheless (README.md, 'Warnings')."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import UNSET

from coordinator.definitions import END, TERMINALS, Activity, LoadedWorkflow, conditions
from coordinator.toolsets.sessions.contract.arguments import ActivityReport, StepReport

MAX_WARNINGS = 50
"""The most warnings of one call."""
MAX_WARNING = 2_000
"""The most characters of a warning."""


class Way(NamedTuple):
    """One way out of an activity, and its condition ('' for none)."""

    to: str
    condition: str
    is_default: bool


def validation(warnings: Sequence[str]) -> dict[str, object]:
    """``_meta.validation`` for these warnings."""
    return {"status": "warning" if warnings else "valid", "warnings": list(warnings)}


def bounded(warnings: Sequence[str]) -> list[str]:
    """The warnings for an answer. Long ones are truncated. A last line counts the omitted ones."""
    kept = [
        one if len(one) <= MAX_WARNING else f"{one[:MAX_WARNING]}... ({len(one) - MAX_WARNING} more characters)"
        for one in warnings[:MAX_WARNINGS]
    ]
    if (more := len(warnings) - MAX_WARNINGS) > 0:
        kept.append(f"{more} more warnings are left out; fix these first.")
    return kept


class Exits(NamedTuple):
    """The ways out of an activity."""

    ways: tuple[Way, ...]
    targets: tuple[str, ...]
    """Their targets, each once."""
    steps: tuple[str, ...]
    """The activity's steps."""


@lru_cache(maxsize=512)
def exits(workflow: LoadedWorkflow, activity_id: str) -> Exits | None:
    """The ways out of an activity; None if there is no such activity. Cached per definition."""
    activity = workflow.activity(activity_id)
    if activity is None:
        return None
    return Exits(tuple(ways(activity)), activity.targets(), tuple(step.id for step in activity.steps))


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


def ends(act: str, target: str, workflow: LoadedWorkflow) -> bool:
    """Whether going to ``target`` completes the session: it is an end, and the activity may be the last one.

    An activity may be the last if it names an end (then it accepts ``END`` as well), or if none of its ways out is
    always open.
    """
    leaving = exits(workflow, act) if target in TERMINALS else None
    if leaving is None or target in workflow.activities:
        return False
    named = TERMINALS.intersection(leaving.targets).difference(workflow.activities)
    if target in named or (named and target == END):
        return True
    return all(way.condition and not way.is_default for way in leaving.ways)


def drift(version: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Warns if the definition has another version than when the session began."""
    if version and version != workflow.version:
        yield (
            f"Workflow version drift: session started with v{version} but current definition is "
            f"v{workflow.version}. Load the workflow again before relying on what was read earlier."
        )


def transition(act: str, target: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Warns if the definition does not lead from the token's activity to the target."""
    if not act:
        initial = workflow.initial_activity
        if initial and target != initial:
            yield f"First activity must be '{initial}' but '{target}' was requested. Begin with initialActivity."
        return
    leaving = exits(workflow, act)
    if act == target or leaving is None or not leaving.targets or target in leaving.targets:
        return
    if not ends(act, target, workflow):
        valid = ", ".join(leaving.targets)
        yield f"Activity '{target}' is not a direct transition from '{act}'. Valid transitions: [{valid}]"


def condition(act: str, target: str, claimed: str, workflow: LoadedWorkflow) -> Iterator[str]:
    """Warns if the condition claimed for a transition is not the defined one."""
    leaving = exits(workflow, act) if act != target else None
    ways = [] if leaving is None else [way for way in leaving.ways if way.to == target]
    if not ways or any(_stated(way, claimed) for way in ways):
        return
    # Several ways may lead to one activity. Each of these has a condition, or is the default.
    wanted = " or ".join(dict.fromkeys(f"'{way.condition}'" for way in ways if way.condition))
    if claimed in ("", "default"):
        stated = "'default'" if claimed else "no condition"
        yield f"Transition to '{target}' requires condition {wanted} but agent claimed {stated}."
    elif not ways[0].condition:
        yield f"Transition to '{target}' is the default (no condition) but agent claimed condition '{claimed}'."
    else:
        yield (
            f"Condition mismatch for transition to '{target}': the workflow has {wanted} but agent claimed '{claimed}'."
        )


def _stated(way: Way, claimed: str) -> bool:
    """Whether the claimed condition is that of this way."""
    if claimed in ("", "default"):
        return way.is_default or not way.condition
    return way.condition == claimed if way.condition else not way.is_default


def step_manifest(act: str, manifest: Sequence[StepReport] | None, workflow: LoadedWorkflow) -> Iterator[str]:
    """Warns if the steps of the activity left were not all reported, in order and with an outcome."""
    if not act:
        return
    if manifest is None:
        yield f"No step_manifest provided for previous activity '{act}'. Report each of its steps with its output."
        return
    leaving = exits(workflow, act)
    if leaving is None:
        yield f"Cannot validate manifest: activity '{act}' not found"
        return
    if not leaving.steps:
        return
    reported = [report.step_id for report in manifest]
    yield from _compared(leaving.steps, reported)
    for report in manifest:
        if not report.output.strip():
            yield f"Step '{report.step_id}' has empty output"


def _compared(expected: Sequence[str], reports: Sequence[str]) -> Iterator[str]:
    known, reported = set(expected), set(reports)
    if missing := [step for step in expected if step not in reported]:
        yield f"Missing steps in manifest: [{', '.join(missing)}]"
    if unexpected := [step for step in reports if step not in known]:
        yield f"Unexpected steps in manifest: [{', '.join(unexpected)}]"
    for place, (want, got) in enumerate(zip(expected, reports, strict=False)):
        if want != got:
            yield f"Step order mismatch at position {place}: expected '{want}' but got '{got}'"


def activity_manifest(manifest: Sequence[ActivityReport] | None, workflow: LoadedWorkflow) -> Iterator[str]:
    """Warns of invalid reports on completed activities."""
    if manifest is None:
        return
    if not manifest:
        yield "Empty activity_manifest provided. Leave it out if no activity is done."
    for report in manifest:
        leaving = exits(workflow, report.activity_id)
        if leaving is None:
            yield f"Activity manifest references unknown activity '{report.activity_id}'"
        if not report.outcome.strip():
            yield f"Activity '{report.activity_id}' has empty outcome"
        claimed = report.transition_condition
        if leaving is None or not claimed or not leaving.ways:
            continue
        if not any(way.condition == claimed or (claimed == "default" and way.is_default) for way in leaving.ways):
            yield (
                f"Activity '{report.activity_id}' claims transition condition '{claimed}' not found in workflow "
                "transitions"
            )
