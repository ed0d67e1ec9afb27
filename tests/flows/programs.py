"""Random flows with a known meaning.

A *program* is a nested structure with an obvious meaning: a sequence of parts, each a step, a
choice between sequences, or a fork of sequences that run side by side. ``flow_of`` writes it down as
a flow; ``meaning`` says, without looking at any flow, which steps run and how the workflow ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

RESULTS: tuple[Any, ...] = (True, False, None, "yes", "true", 0, 1, [], {"result": True})
CONDITIONS: Mapping[str, Any] = {
    "result == true": lambda value: value is True,
    "result == false": lambda value: value is False,
    "result == nil": lambda value: value is None,
    "result != nil": lambda value: value is not None,
    'result == "yes"': lambda value: value == "yes" and type(value) is str,
}


@dataclass
class Task:
    """One step: with a tool, a gate, or one that does nothing."""

    name: str
    kind: str
    result: Any = None


@dataclass
class Choice:
    """A step whose result selects the next sequence; ``rest`` follows all of them."""

    name: str
    result: Any
    arms: list[tuple[str, list[Part]]]


@dataclass
class Fork:
    """Parallel sequences, and the step that joins them."""

    name: str
    branches: list[list[Part]]
    join: Task


Part = Task | Choice | Fork


@dataclass
class Meaning:
    """The expected execution of a program."""

    run: set[str] = field(default_factory=set)
    """Names of the steps that run."""
    before: dict[str, set[str]] = field(default_factory=dict)
    """Step -> steps that must be done before it."""
    stuck: str = ""
    """The step none of whose arms matched; empty: the workflow completes."""


class _Names:
    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return "start" if self.count == 1 else f"s{self.count}"


@st.composite
def programs(draw: st.DrawFn, most: int = 25) -> list[Part]:
    """Sequences of parts with up to ``most`` steps."""
    names = _Names()

    def task() -> Task:
        kind = draw(st.sampled_from(["tool", "tool", "gate", "noop"]))
        return Task(names.next(), kind, draw(st.sampled_from(RESULTS)) if kind == "tool" else None)

    def sequence(depth: int, least: int) -> list[Part]:
        parts: list[Part] = []
        for _ in range(draw(st.integers(least, 3))):
            shape = (
                draw(st.sampled_from(["task", "task", "choice", "fork"])) if depth and names.count < most else "task"
            )
            if shape == "task":
                parts.append(task())
            elif shape == "choice":
                name, result = names.next(), draw(st.sampled_from(RESULTS))
                conditions = draw(st.lists(st.sampled_from(list(CONDITIONS)), min_size=1, max_size=3))
                parts.append(Choice(name, result, [(one, sequence(depth - 1, 0)) for one in conditions]))
            else:
                name = names.next()
                branches = [sequence(depth - 1, 1) for _ in range(draw(st.integers(1, 3)))]
                parts.append(Fork(name, branches, task()))
        return parts

    program = sequence(3, 1)
    # The last part always needs a successor.
    return [*program, task()]


def flow_of(program: list[Part]) -> Json:
    """The program as a flow."""
    flow: Json = {}

    def entry(parts: list[Part], after: Json) -> str:
        """The key of the first step of a sequence followed by ``after``; built from its end."""
        follow = after
        for part in reversed(parts):
            key = write(part, follow)
            follow = {"next": key}
        return str(follow["next"])

    def write(part: Part, follow: Json) -> str:
        if isinstance(part, Task):
            flow[part.name] = {"name": part.name, **_tool(part), **follow}
        elif isinstance(part, Fork):
            write(part.join, follow)
            heads = [entry(branch, {"join": part.join.name}) for branch in part.branches]
            flow[part.name] = {"name": part.name, "tool": None, "parallel": heads}
        else:
            arms = []
            for number, (condition, parts) in enumerate(part.arms):
                # An empty arm leads directly to the next plain step, if there is one.
                if not parts and "next" not in follow:
                    parts = [Task(f"{part.name}-{number}", "noop")]
                arms.append({"if": condition, "then": entry(parts, follow)})
            flow[part.name] = {"name": part.name, "tool": "give", "branch": arms}
        return part.name

    entry(program, {"done": True})
    return dict(sorted(flow.items(), key=lambda one: one[0] != "start"))


def _tool(task: Task) -> Json:
    return {"tool": "give"} if task.kind == "tool" else {"tool": None, "gate": task.kind == "gate"}


def results_of(program: list[Part]) -> dict[str, Any]:
    """The result of each step of the program."""
    found: dict[str, Any] = {}
    for part in program:
        if isinstance(part, Task):
            found[part.name] = part.result
        elif isinstance(part, Fork):
            found[part.name] = None
            found[part.join.name] = part.join.result
            for branch in part.branches:
                found |= results_of(branch)
        else:
            found[part.name] = part.result
            for number, (_, arm) in enumerate(part.arms):
                found[f"{part.name}-{number}"] = None
                found |= results_of(arm)
    return found


def meaning(program: list[Part]) -> Meaning:
    """Which steps run, in which order, and how it ends; for a stuck program only the end is exact."""
    found = Meaning()

    def walk(parts: list[Part], done: set[str]) -> set[str]:
        """Runs a sequence after ``done``; returns the steps done at its end."""
        for part in parts:
            if found.stuck:
                return done
            found.run.add(part.name)
            found.before[part.name] = set(done)
            done = {*done, part.name}
            if isinstance(part, Fork):
                ends = [walk(branch, done) for branch in part.branches]
                if found.stuck:
                    return done
                done = set().union(*ends)
                done = walk([part.join], done)
            elif isinstance(part, Choice):
                chosen = next(
                    (n for n, (condition, _) in enumerate(part.arms) if CONDITIONS[condition](part.result)), None
                )
                if chosen is None:
                    found.stuck = part.name
                    return done
                extra = f"{part.name}-{chosen}"
                if not part.arms[chosen][1]:
                    found.before[extra] = set(done)
                done = walk(part.arms[chosen][1], done)
        return done

    walk(program, set())
    return found
