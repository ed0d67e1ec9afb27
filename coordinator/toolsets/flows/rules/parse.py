"""Parses a caller's flow into steps, and reports all problems of their fields.

Parsing does not stop at the first problem. Each problem is a sentence that begins with its place. Even a step with
problems takes part in the checks of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from coordinator.steps.handoff import PRIORITIES
from coordinator.steps.model import BACKOFFS, Retry
from coordinator.toolsets.flows.rules import conditions, limits, templates
from coordinator.toolsets.flows.rules.problems import Problems, place
from coordinator.toolsets.flows.rules.spec import ON_ERROR, START, Arm, Step

Word = TypeVar("Word", bound=str)

FOLLOWERS = ("next", "branch", "parallel", "join", "done")
FIELDS = (
    "name",
    "tool",
    "args",
    *FOLLOWERS,
    "gate",
    "approver_role",
    "retry",
    "timeout_ms",
    "on_error",
    "queue",
    "priority",
    "delay_ms",
)
RETRY_FIELDS = ("max_attempts", "delay_ms", "backoff", "max_delay_ms")

# Characters that could move the cursor of a terminal that shows the name, or reverse the direction of the text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
QUEUE = re.compile(r"[a-z][a-z0-9_-]{0,49}\Z")
QUEUE_RULE = "a name of 1 to 50 lower-case letters, digits, '-' and '_', a letter first"


def name_problem(text: object) -> str:
    """What is wrong with a name that is shown to people and terminals; empty if it is valid."""
    if not isinstance(text, str):
        return "must be text"
    if not text.strip() or len(text) > limits.MAX_NAME:
        return f"must be 1 to {limits.MAX_NAME} characters, not blank"
    return "must not hold control characters" if _CONTROL.search(text) else ""


def steps(flow: Mapping[str, Any], problems: Problems) -> dict[str, Step]:
    """Parses the steps, by key. What cannot be parsed is reported and left out.

    Args:
        flow: the flow object as the caller gave it.
    """
    if START not in flow:
        problems.add("flow", 'must have a "start" key, the first step')
    parsed: dict[str, Step] = {}
    for key, spec in flow.items():
        if problem := name_problem(key):
            problems.add(place(key), f"a step's key {problem}")
        if isinstance(spec, dict):
            step = _Reader(key, spec, problems).step()
            if len(key) <= limits.MAX_NAME:
                parsed[key] = step
        else:
            problems.add(place(key), "must be an object with name, tool and its successor")
    return parsed


class _Reader:
    def __init__(self, key: str, spec: Mapping[str, Any], problems: Problems) -> None:
        self._key = key
        # Null counts as absent, because agents often write out fields that they do not use.
        self._spec = {name: value for name, value in spec.items() if value is not None or name == "tool"}
        self._problems = problems

    def step(self) -> Step:
        for name in self._spec:
            if name not in FIELDS:
                self._problems.no_such_field(place(self._key, name[:50]), name, FIELDS)
        followers = [name for name in FOLLOWERS if name in self._spec and self._spec[name] is not False]
        if len(followers) != 1:
            followers_said = f"has {' and '.join(followers)}" if followers else "has none of them"
            self._report("", f"must have exactly one of {', '.join(FOLLOWERS)}; it {followers_said}")
        tool = self._tool()
        gate = self._gate(tool)
        return Step(
            name=self._name(),
            tool=tool,
            args=self._args(),
            next=self._key_of("next"),
            branch=self._branch(),
            parallel=self._parallel(),
            join=self._key_of("join"),
            done=self._done(),
            gate=gate,
            approver_role=self._approver_role(gate),
            retry=self._retry(),
            timeout_ms=self._timeout(gate),
            on_error=self._word("on_error", ON_ERROR) or "fail",
            queue=self._queue(),
            priority=self._word("priority", PRIORITIES),
            delay_ms=self._delay(gate),
        )

    def _report(self, field: str, problem: str) -> None:
        self._problems.add(place(self._key, field) if field else place(self._key), problem)

    def _name(self) -> str:
        if "name" not in self._spec:
            self._report("name", "is required: the step's name, unique within the workflow")
            return self._key
        name = self._spec["name"]
        if problem := name_problem(name):
            self._report("name", problem)
            return self._key
        return str(name)

    def _tool(self) -> str | None:
        if "tool" not in self._spec:
            self._report("tool", "is required: a tool's name, or null for a gate or a step that does nothing")
            return None
        tool = self._spec["tool"]
        if tool is None:
            return None
        if name_problem(tool):
            self._report("tool", "must be a tool's name or null")
            return None
        return str(tool)

    def _gate(self, tool: str | None) -> bool:
        gate = self._spec.get("gate")
        if gate is not None and not isinstance(gate, bool):
            self._report("gate", "must be true or false")
            gate = None
        if tool is not None:
            if gate:
                self._report("gate", "only a step without a tool can be a gate; put one before this step")
            return False
        # By default, a step without a tool is a gate unless it is a fork.
        return "parallel" not in self._spec if gate is None else gate

    def _approver_role(self, gate: bool) -> str | None:
        role = self._spec.get("approver_role")
        if role is None:
            return None
        if problem := name_problem(role):
            self._report("approver_role", problem)
        elif not gate:
            self._report("approver_role", "only a gate has an approver")
        return str(role)

    def _args(self) -> dict[str, Any]:
        args = self._spec.get("args", {})
        if not isinstance(args, dict):
            self._report("args", "must be an object")
            return {}
        return args

    def _key_of(self, field: str) -> str | None:
        value = self._spec.get(field)
        if value is None or isinstance(value, str):
            return value
        self._report(field, "must be the key of a step")
        return None

    def _branch(self) -> tuple[Arm, ...]:
        arms: list[Arm] = []
        for where, entry in self._entries("branch", "objects with if and then"):
            if not isinstance(entry, dict):
                self._report(where, "must be an object with if and then")
                continue
            for name in entry.keys() - {"if", "then"}:
                self._report(f"{where}.{name[:50]}", "no such field; allowed: if, then")
            condition, then = entry.get("if"), entry.get("then")
            if problem := conditions.problem(condition):
                self._report(f"{where}.if", problem)
            if not isinstance(then, str):
                self._report(f"{where}.then", "must be the key of a step")
            else:
                arms.append(Arm(condition if isinstance(condition, str) else "", then))
        return tuple(arms)

    def _parallel(self) -> tuple[str, ...]:
        branches: list[str] = []
        for where, entry in self._entries("parallel", "keys of steps"):
            if not isinstance(entry, str):
                self._report(where, "must be the key of a step")
            elif entry in branches:
                self._report(where, f"{entry[:50]!r} is there twice")
            else:
                branches.append(entry)
        return tuple(branches)

    def _entries(self, field: str, of: str) -> list[tuple[str, Any]]:
        value = self._spec.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or not 1 <= len(value) <= limits.MAX_WIDTH:
            self._report(field, f"must be a list of 1 to {limits.MAX_WIDTH} {of}")
            value = value[: limits.MAX_WIDTH] if isinstance(value, list) else []
        return [(f"{field}[{position}]", entry) for position, entry in enumerate(value)]

    def _done(self) -> bool:
        value = self._spec.get("done", False)
        if not isinstance(value, bool):
            self._report("done", "must be true")
        return bool(value)

    def _retry(self) -> Retry | None:
        retry = self._spec.get("retry")
        if retry is None:
            return None
        if not isinstance(retry, dict):
            self._report("retry", f"must be an object with {', '.join(RETRY_FIELDS)}")
            return None
        for name in retry:
            if name not in RETRY_FIELDS:
                self._problems.no_such_field(place(self._key, "retry", name[:50]), name, RETRY_FIELDS)
        if "max_attempts" not in retry:
            self._report("retry.max_attempts", f"is required: 1 to {limits.MAX_ATTEMPTS}, the first attempt included")
        default = Retry()
        day = limits.MAX_TIMEOUT_MS
        return Retry(
            self._whole("max_attempts", 1, limits.MAX_ATTEMPTS, 1, retry, "retry."),
            self._whole("delay_ms", 0, day, default.delay_ms, retry, "retry."),
            self._word("backoff", BACKOFFS, retry, "retry.") or default.backoff,
            self._whole("max_delay_ms", 0, day, default.max_delay_ms, retry, "retry."),
        )

    def _timeout(self, gate: bool) -> int:
        if gate:
            return self._whole("timeout_ms", 1, limits.MAX_DELAY_MS, 0)
        return self._whole("timeout_ms", 1, limits.MAX_TIMEOUT_MS, limits.DEFAULT_TIMEOUT_MS)

    def _delay(self, gate: bool) -> int:
        if gate and self._spec.get("delay_ms"):
            self._report("delay_ms", "a gate waits for its release and cannot be delayed")
        return self._whole("delay_ms", 0, limits.MAX_DELAY_MS, 0)

    def _queue(self) -> str | None:
        queue = self._spec.get("queue")
        if queue is None:
            return None
        if not isinstance(queue, str) or not QUEUE.match(queue):
            self._report("queue", f"must be {QUEUE_RULE}")
            return None
        return queue

    def _whole(
        self, field: str, low: int, high: int, default: int, spec: Mapping[str, Any] | None = None, prefix: str = ""
    ) -> int:
        value = (self._spec if spec is None else spec).get(field)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # in JSON and in the published schema, 1.0 is an integer
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self._report(prefix + field, f"must be a whole number from {low} to {high}")
            return default
        return value

    def _word(
        self, field: str, allowed: Sequence[Word], spec: Mapping[str, Any] | None = None, prefix: str = ""
    ) -> Word | None:
        value = (self._spec if spec is None else spec).get(field)
        if value is not None and value not in allowed:
            self._report(prefix + field, f"must be one of {', '.join(allowed)}")
        return next((word for word in allowed if word == value), None)


def check_templates(
    parsed: Mapping[str, Step], variables: Mapping[str, Any] | None, with_results: bool, problems: Problems
) -> None:
    """Reports template tokens that are malformed, or refer to missing input.

    Args:
        variables: the workflow's input; None: not known yet, so only the syntax of tokens is checked.
        with_results: whether tokens may use results of earlier steps.
    """
    names = {step.name for step in parsed.values()}
    forms = "{{input.key}}" + (" and {{steps.name.result}}" if with_results else "")
    have = ", ".join(name[:50] for name in islice(variables or (), 20)) or "none"

    def check(token: str, spot: str) -> None:
        quoted = "{{" + token[:80] + "}}"
        target = templates.reference(token)
        if target is not None and target.step and not with_results:
            problems.add(spot, f"{quoted} means nothing without the setting flows.step_results; allowed: {forms}")
        elif target is None:
            problems.add(spot, f"{quoted} means nothing; allowed: {forms} (text with braces can be passed in as input)")
        elif target.step:
            if target.step not in names:
                problems.unknown(spot, "step", target.step, names)
        elif variables is not None:
            try:
                templates.reach(variables, target.path)
            except KeyError:
                problems.add(spot, f"{quoted}: the input has no {target.path[:80]!r}; its keys: {have}")

    sizes: dict[str, int] = {}
    for key, step in parsed.items():
        for where, token in templates.tokens(step.args):
            check(token, place(key, where))
        if variables is None:
            continue
        try:
            templates.check_size(step.args, variables, sizes)
        except templates.TooLarge as too_large:
            problems.add(place(key, "args"), str(too_large))
        except templates.Absent:
            pass  # reported by check
