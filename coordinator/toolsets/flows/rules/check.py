"""All checks of a workflow before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from coordinator.errors import invalid
from coordinator.steps.model import Retry
from coordinator.toolsets.flows.rules import graph, limits, parse
from coordinator.toolsets.flows.rules.problems import Problems, place
from coordinator.toolsets.flows.rules.spec import Flow, Step, as_given, pack

ToolProblem = Callable[[str], str]
"""What is wrong with a tool's name, as a sentence; empty if nothing is known."""


def check_flow(
    flow: Mapping[str, Any], given: Mapping[str, Any] | None, tool_problem: ToolProblem, *, with_results: bool
) -> Flow:
    """The checked steps.

    Args:
        flow: the flow object as the caller gave it.
        given: the workflow's input; None: not known yet, so only the syntax of templates is checked.
        tool_problem: checks names of tools.
        with_results: whether templates may use results of earlier steps.

    Raises:
        ToolFailure: VALIDATION_ERROR with all problems, in its message and one by one in ``problems``.
    """
    # Checked first, because other checks could be slow on too large a flow.
    if len(flow) > limits.MAX_STEPS:
        raise invalid("flow", f"has {len(flow)} steps; at most {limits.MAX_STEPS} are allowed")
    _check_size("flow", flow, limits.MAX_FLOW_BYTES)
    if given is not None:
        _check_size("input", given, limits.MAX_INPUT_BYTES)
    problems = Problems()
    steps = parse.steps(flow, problems)
    for key, step in steps.items():
        if step.tool is not None and (problem := tool_problem(step.tool)):
            problems.add(place(key, "tool"), problem)
    parse.check_templates(steps, given, with_results, problems)
    if with_results:
        graph.check_results(steps, problems)
    checked = graph.check(steps, problems)
    problems.raise_if_any()
    return checked


def as_meant(flow: Mapping[str, Any]) -> Mapping[str, Any]:
    """The steps without fields that have their default, so that flows which mean the same are equal.

    A flow with a wrong field is returned as it is.
    """
    problems = Problems()
    steps = parse.steps(flow, problems) if len(flow) <= limits.MAX_STEPS else {}
    return flow if problems.sentences or not steps else {key: _as_meant(step) for key, step in steps.items()}


def _as_meant(step: Step) -> dict[str, Any]:
    retry, shown = step.retry, as_given(step)
    if retry is not None and retry.max_attempts == 1:
        del shown["retry"]  # one attempt is the default, and then nothing else about it counts
    elif retry is not None:
        shown["retry"] = {name: value for name, value in shown["retry"].items() if value != getattr(Retry(), name)}
    return shown


def _check_size(field: str, value: Mapping[str, Any], most: int) -> None:
    try:
        pack(value)
        size = len(msgspec.json.encode(value))
    except (OverflowError, UnicodeEncodeError):
        raise invalid(field, "may hold whole numbers of at most 64 bits, and valid Unicode text only") from None
    if size > most:
        raise invalid(field, f"has {size} bytes as JSON; at most {most} are allowed")
