"""Checks of a flow as a graph. A flow in which a step could get stuck or run twice is rejected.

A workflow runs as one token that moves from step to step. ``parallel`` splits the token, one part
for each branch. Parts that reach the same join merge. The *region* of a step is
the list of branches that it lies in, from outside to inside. The rules follow from that:

- A step has only one region. Otherwise two parts of the token could create it twice.
- All branches of a fork end in the same join. Otherwise the join would wait for ever or run early.
- No step within a branch completes the workflow, because other branches may still run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import msgspec

from coordinator.toolsets.flows.rules import templates
from coordinator.toolsets.flows.rules.problems import Problems, place
from coordinator.toolsets.flows.rules.spec import START, Step

Region = tuple[tuple[str, str], ...]
"""Pairs of the key of a fork and the key of the branch's first step, outermost first."""


def edges(step: Step) -> Iterator[tuple[str, str]]:
    """The steps that may follow a step, as pairs of the field that names the step and the step's key."""
    if step.next is not None:
        yield "next", step.next
    for position, arm in enumerate(step.branch):
        yield f"branch[{position}].then", arm.then
    for position, key in enumerate(step.parallel):
        yield f"parallel[{position}]", key
    if step.join is not None:
        yield "join", step.join


def check(steps: Mapping[str, Step], problems: Problems) -> dict[str, Step]:
    """Reports all problems of the graph. Returns the steps, with ``fork`` filled in."""
    _check_names(steps, problems)
    _check_references(steps, problems)
    cyclic = _check_cycles(steps, problems)
    regions = _regions(steps, problems)
    if START in steps:
        for key in steps:
            if key not in regions:
                problems.add(place(key), "cannot be reached from start")
    _check_joins(steps, regions, problems)
    checked = dict(steps)
    for key, region in regions.items():
        step = steps[key]
        if step.join is not None and region and not cyclic:
            checked[key] = msgspec.structs.replace(step, fork=region[-1][0])
    return checked


def check_results(steps: Mapping[str, Step], problems: Problems) -> None:
    """Reports template tokens that use the result of a step that is not a predecessor."""
    keys = {step.name: key for key, step in steps.items()}
    behind: dict[str, set[str]] = {}
    for key, step in steps.items():
        for where, token in templates.tokens(step.args):
            target = templates.reference(token)
            source = keys.get(target.step) if target is not None and target.step else None
            if source is not None and source not in behind:
                behind[source] = _behind(steps, source)
            if source is not None and key not in behind[source]:
                problems.add(
                    place(key, where), f"{{{{{token[:80]}}}}}: {steps[source].name!r} does not come before this step"
                )


def _behind(steps: Mapping[str, Step], key: str) -> set[str]:
    seen: set[str] = set()
    pending = [target for _, target in edges(steps[key])]
    while pending:
        target = pending.pop()
        if target in steps and target not in seen:
            seen.add(target)
            pending += [after for _, after in edges(steps[target])]
    return seen


def _check_names(steps: Mapping[str, Step], problems: Problems) -> None:
    owners: dict[str, str] = {}
    for key, step in steps.items():
        if step.name in owners:
            problems.add(place(key, "name"), f"{step.name!r} is also the name of {place(owners[step.name])}")
        elif step.name != key and step.name in steps and steps[step.name].name != step.name:
            problems.add(place(key, "name"), f"{step.name!r} is the key of another step")
        owners.setdefault(step.name, key)


def _check_references(steps: Mapping[str, Step], problems: Problems) -> None:
    keys = {step.name: key for key, step in steps.items()}
    for key, step in steps.items():
        for field, target in edges(step):
            if target in steps:
                continue
            if target in keys:
                problems.add(place(key, field), f"{target!r} is the name of a step; its key is {keys[target]!r}")
            else:
                problems.unknown(place(key, field), "step", target, steps)


def _check_cycles(steps: Mapping[str, Step], problems: Problems) -> bool:
    """Reports each cycle with its path. Returns whether there is one."""
    done: set[str] = set()
    way: list[str] = []
    cyclic = False

    def visit(key: str) -> None:
        # The recursion is at most as deep as the longest path, so at most MAX_STEPS.
        nonlocal cyclic
        way.append(key)
        for _, target in edges(steps[key]):
            if target in way:
                cyclic = True
                around = [*way[way.index(target) :], target]
                problems.add(place(key), f"leads back to an earlier step: {' > '.join(around)}; flows have no loops")
            elif target in steps and target not in done:
                visit(target)
        way.pop()
        done.add(key)

    for root in steps:
        if root not in done:
            visit(root)
    return cyclic


def _regions(steps: Mapping[str, Step], problems: Problems) -> dict[str, Region]:
    regions: dict[str, Region] = {START: ()} if START in steps else {}
    clashes: set[str] = set()
    pending = deque(regions)
    while pending:
        key = pending.popleft()
        step, here = steps[key], regions[key]
        for field, target in edges(step):
            if target not in steps:
                continue
            there = here
            if field.startswith("parallel"):
                there = (*here, (key, target))
            elif field == "join":
                if not here:
                    problems.add(place(key, "join"), "stands outside of parallel branches, so there is nothing to join")
                    continue
                there = here[:-1]
            if target not in regions:
                regions[target] = there
                pending.append(target)
            elif regions[target] != there and target not in clashes:
                clashes.add(target)
                problems.add(
                    place(target),
                    f"is reached {_where(regions[target])} and {_where(there)}; parallel branches meet in a join only",
                )
    return regions


def _check_joins(steps: Mapping[str, Step], regions: Mapping[str, Region], problems: Problems) -> None:
    joins: dict[str, dict[str, str]] = {}
    for key, region in regions.items():
        step = steps[key]
        if step.done and region:
            problems.add(place(key, "done"), f"stands {_where(region)}; a parallel branch has to end with join")
        if step.join is not None and region:
            joins.setdefault(region[-1][0], {}).setdefault(step.join, key)
    for fork, targets in joins.items():
        if len(targets) > 1:
            ways = " and ".join(f"{place(key)} joins {target!r}" for target, key in targets.items())
            problems.add(place(fork, "parallel"), f"all its branches have to end in the same join, but {ways}")
        for target, key in targets.items():
            if target in steps[fork].parallel:
                problems.add(place(key, "join"), f"{target!r} is itself a branch of {place(fork)}")


def _where(region: Region) -> str:
    if not region:
        return "outside of parallel branches"
    fork, branch = region[-1]
    return f"in the branch {branch!r} of {place(fork)}"
