"""Finds mistakes across files: names of things that do not exist, activities that cannot be reached.

Loading checks each file by itself and reports what it leaves out. This checks the files against each other. A
``Problem`` of level ``wrong`` will break a run of the workflow; one of level ``odd`` may be intended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, UnsetType

from coordinator.definitions.files import Problem
from coordinator.definitions.loaded import Library, LoadedActivity, LoadedWorkflow
from coordinator.definitions.model import TERMINALS, Activity, Checkpoint, SkillUse, Trigger, preserved_name

_RESOURCE = re.compile(r"^(?:resources|guides)/(\d+)-")
_TIME = re.compile(r"\d+(-\d+)?\s*(m|min|h|hr|hours?|d|days?)?", re.IGNORECASE)


def lint(library: Library) -> tuple[Problem, ...]:
    """All problems, those found while loading and those across files. Each is listed once, ordered by file."""
    found = [*library.problems]
    for workflow in library.workflows.values():
        found += _workflow(library, workflow)
        for loaded in workflow.activities.values():
            found += _activity(library, workflow, loaded)
    found += _rings(library)
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
                    yield _wrong(place, f"option '{option.id}' skips an activity that does not exist: '{name}'{here}")
    yield from _skills(library, workflow.id, loaded.owner, activity.skills, place)
    for step in activity.all_steps():
        if step.skill and library.skill(workflow.id, step.skill, loaded.owner) is None:
            yield _wrong(place, f"step '{step.id}': there is no skill '{step.skill}'{here}")
        if step.checkpoint and activity.checkpoint(step.checkpoint) is None:
            yield _wrong(place, f"step '{step.id}': there is no checkpoint '{step.checkpoint}'")
    for trigger in activity.all_triggers():
        yield from _trigger(library, workflow, activity, trigger, place)
    yield from _shape(activity, place)


def _trigger(
    library: Library, workflow: LoadedWorkflow, activity: Activity, trigger: Trigger, place: str
) -> Iterator[Problem]:
    other = library.workflows.get(trigger.workflow)
    if other is None:
        yield _wrong(place, f"triggers a workflow that does not exist: '{trigger.workflow}'")
        return
    if other.activity(other.initial_activity or "") is None:
        yield _wrong(place, f"triggers workflow '{other.id}', which has no activity to begin with")
    own, needed = ({one.name: one for one in it.workflow.variables or ()} for it in (workflow, other))
    passed = [preserved_name(one) for one in trigger.pass_context or ()]
    said = f"trigger of '{other.id}': passContext"
    for name in passed:
        root = name.split(".")[0]
        if own and root not in own and root not in {loop.variable for loop in activity.loops}:
            yield _odd(place, f"{said} names '{name}', which workflow '{workflow.id}' does not declare")
        elif name in own and name in needed and own[name].type != needed[name].type:
            types = f"{own[name].type} in '{workflow.id}' and {needed[name].type} in '{other.id}'"
            yield _wrong(place, f"{said} names '{name}', which is of type {types}, so it is not passed on")
    for name, variable in needed.items():
        if variable.required and variable.default_value is UNSET and name not in passed:
            yield _wrong(place, f"{said} lacks '{name}', which '{other.id}' requires")


def _rings(library: Library) -> Iterator[Problem]:
    """Workflows that trigger each other in a cycle."""
    leads = {
        name: {
            trigger.workflow for activity in loaded.activities.values() for trigger in activity.activity.all_triggers()
        }
        for name, loaded in library.workflows.items()
    }
    reported: set[str] = set()
    for name, loaded in library.workflows.items():
        cycle = _way_back(leads, name)
        if cycle and not reported & set(cycle):
            reported |= set(cycle)
            yield _odd(loaded.place, f"workflows trigger each other in an endless cycle: {' > '.join(cycle)}")


def _way_back(leads: Mapping[str, set[str]], start: str) -> list[str]:
    """The shortest cycle of triggers through a workflow; empty if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for target in sorted(leads.get(way[-1], ())):
            if target == start:
                return [*way, target]
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


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
        yield _odd(place, f"estimatedTime '{activity.estimated_time}' is not a time; allowed is, for example, 10-20m")


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
            yield _wrong(place, f"{what} '{name}' is there {count} times; the id refers to the first one")


def _wrong(place: str, message: str) -> Problem:
    return Problem("wrong", place, None, message)


def _odd(place: str, message: str) -> Problem:
    return Problem("odd", place, None, message)
