"""Finds mistakes across files: names of things that do not exist, activities that cannot be reached.

Loading checks each file by itself and reports what it leaves out. This checks the files against each other. A
``Problem`` of level ``wrong`` will disturb a run of the workflow; one of level ``odd`` may be intended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET, UnsetType

from coordinator.definitions.files import Problem
from coordinator.definitions.loaded import Library, LoadedActivity, LoadedWorkflow
from coordinator.definitions.model import TERMINALS, Activity, Checkpoint, SkillUse

_RESOURCE = re.compile(r"^(?:resources|guides)/(\d+)-")
_TIME = re.compile(r"\d+(-\d+)?\s*(m|min|h|hr|hours?|d|days?)?", re.IGNORECASE)


def lint(library: Library) -> tuple[Problem, ...]:
    """All problems, those found while loading and those across files. Each is listed once, ordered by file."""
    found = [*library.problems]
    for workflow in library.workflows.values():
        found += _workflow(library, workflow)
        for loaded in workflow.activities.values():
            found += _activity(library, workflow, loaded)
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda one: (one.place, one.line or 0)))


def _workflow(library: Library, loaded: LoadedWorkflow) -> Iterator[Problem]:
    workflow, place = loaded.workflow, loaded.place
    yield from _skills(library, loaded.id, None, workflow.skills, place)
    if workflow.variables is not UNSET:
        yield from _repeated((one.name for one in workflow.variables), "variable", place)
    yield from _modes(library, loaded)
    yield from _unreachable(loaded)
    keys = Counter(
        f"{activity.id}-{checkpoint.id}"
        for activity in loaded.activities.values()
        for checkpoint in activity.activity.checkpoints
    )
    for key, count in keys.items():
        if count > 1:
            yield _odd(place, f"{count} checkpoints are called '{key}' together with their activities")


def _modes(library: Library, loaded: LoadedWorkflow) -> Iterator[Problem]:
    for mode in loaded.workflow.modes or ():
        for name in mode.skip_activities or ():
            if name not in loaded.activities:
                sentence = f"mode '{mode.id}': skipActivities names no activity of the workflow: '{name}'"
                yield _wrong(loaded.place, sentence)
        if mode.resource and library.resource(loaded.id, _number(mode.resource)) is None:
            yield _odd(loaded.place, f"mode '{mode.id}': there is no resource '{mode.resource}'")


def _unreachable(loaded: LoadedWorkflow) -> Iterator[Problem]:
    start = loaded.initial_activity
    if start is None or start not in loaded.activities:
        return
    reached = _reached(loaded, start)
    for name in loaded.activities:
        if name not in reached:
            yield _wrong(loaded.place, f"activity '{name}' is unreachable: nothing leads to it from '{start}'")


def _reached(loaded: LoadedWorkflow, start: str) -> set[str]:
    reached = {start}
    pending = [start]
    while pending:
        for target in loaded.activities[pending.pop()].activity.targets():
            if target in loaded.activities and target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def _activity(library: Library, workflow: LoadedWorkflow, loaded: LoadedActivity) -> Iterator[Problem]:
    activity, place = loaded.activity, loaded.place
    known = workflow.activities.keys() | TERMINALS
    # A borrowed activity may lead to one that only its owner has, which the author of the borrower should know.
    here = "" if loaded.owner == workflow.id else f" (borrowed by {workflow.id})"
    for where, target in activity.ways_out():
        if target not in known:
            yield _wrong(place, f"{where} leads nowhere: there is no activity '{target}'{here}")
    for checkpoint in activity.checkpoints:
        for option in checkpoint.options:
            for name in option.effects.skip_activities or ():
                if name not in workflow.activities:
                    yield _wrong(place, f"option '{option.id}' skips an activity that is not there: '{name}'{here}")
    yield from _skills(library, workflow.id, loaded.owner, activity.skills, place)
    for step in activity.all_steps():
        if step.skill and library.skill(workflow.id, step.skill, loaded.owner) is None:
            yield _wrong(place, f"step '{step.id}': there is no skill '{step.skill}'{here}")
        if step.checkpoint and activity.checkpoint(step.checkpoint) is None:
            yield _wrong(place, f"step '{step.id}': there is no checkpoint '{step.checkpoint}'")
    for trigger in activity.all_triggers():
        if trigger.workflow not in library.workflows:
            yield _wrong(place, f"triggers a workflow that is not there: '{trigger.workflow}'")
    yield from _shape(activity, place)


def _shape(activity: Activity, place: str) -> Iterator[Problem]:
    yield from _repeated((step.id for step in activity.steps), "step", place)
    yield from _repeated((one.id for one in activity.checkpoints), "checkpoint", place)
    yield from _repeated((one.id for one in activity.loops), "loop", place)
    yield from _repeated((one.id for one in activity.decisions), "decision", place)
    if sum(transition.is_default for transition in activity.transitions) > 1:
        yield _odd(place, "more than one transition is the default; the first one counts")
    for checkpoint in activity.checkpoints:
        yield from _checkpoint(checkpoint, place)
    for loop in activity.loops:
        if loop.type != "forEach" and loop.condition is UNSET:
            yield _odd(place, f"loop '{loop.id}' is of type {loop.type} and has no condition")
        yield from _repeated((step.id for step in loop.steps or ()), f"step of loop '{loop.id}'", place)
    if activity.estimated_time and not _TIME.fullmatch(activity.estimated_time.strip()):
        yield _odd(place, f"estimatedTime '{activity.estimated_time}' is none; allowed is, for example, 10-20m")


def _checkpoint(checkpoint: Checkpoint, place: str) -> Iterator[Problem]:
    yield from _repeated((one.id for one in checkpoint.options), f"option of checkpoint '{checkpoint.id}'", place)
    default, after = checkpoint.default_option, checkpoint.auto_advance_ms
    if default and checkpoint.option(default) is None:
        yield _wrong(place, f"checkpoint '{checkpoint.id}': defaultOption '{default}' is none of its options")
    if after is not UNSET and default is UNSET:
        yield _wrong(place, f"checkpoint '{checkpoint.id}': autoAdvanceMs needs a defaultOption")
    if after is not UNSET and checkpoint.blocking:
        yield _odd(place, f"checkpoint '{checkpoint.id}' is blocking, so autoAdvanceMs has no effect")


def _skills(
    library: Library, workflow: str, owner: str | None, used: SkillUse | UnsetType, place: str
) -> Iterator[Problem]:
    if used is UNSET:
        return
    for reference in (used.primary, *(used.supporting or ())):
        if reference and library.skill(workflow, reference, owner) is None:
            yield _wrong(place, f"there is no skill '{reference}'")


def _number(resource: str) -> str:
    """The number in a path such as ``resources/24-review-mode.md``. Other references are returned as they are."""
    match = _RESOURCE.search(resource)
    return resource if match is None else match[1]


def _repeated(names: Iterable[str], what: str, place: str) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield _wrong(place, f"{count} times {what} '{name}'; only the first one can be meant by its id")


def _wrong(place: str, message: str) -> Problem:
    return Problem("wrong", place, None, message)


def _odd(place: str, message: str) -> Problem:
    return Problem("odd", place, None, message)
