"""Everything that is looked at before a workflow is stored, in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.toolsets.flows.rules import graph, limits, parse
from coordinator.toolsets.flows.rules.spec import Flow

Known = Callable[[str], str]
"""What is wrong with a tool's name; empty: nothing, as far as can be told now."""

MOST_SHOWN = 20
"""Problems that the message spells out; ``problems`` beside the error has all of them."""


def check_flow(flow: Mapping[str, Any], given: Mapping[str, Any], known: Known, *, with_results: bool) -> Flow:
    """The checked steps.

    Args:
        flow: the flow object as the caller gave it.
        given: the workflow's input.
        known: judges names of tools.
        with_results: whether templates may ask for results of earlier steps.

    Raises:
        ToolFailure: VALIDATION_ERROR with all problems, in its message and one by one in ``problems``.
    """
    problems: list[str] = []

    def report(where: str, problem: str) -> None:
        # What a caller wrote may not move the cursor of a terminal that shows the message.
        sentence = "".join(letter if letter.isprintable() else "?" for letter in f"{where}: {problem}")
        if sentence not in problems:
            problems.append(sentence)

    size = len(msgspec.json.encode(flow))
    if size > limits.MAX_FLOW_BYTES:
        # Nothing else is looked at: the answer would be as long.
        raise refused([f"flow: has {size} bytes as JSON; at most {limits.MAX_FLOW_BYTES} are allowed"])
    size = len(msgspec.json.encode(given))
    if size > limits.MAX_INPUT_BYTES:
        report("input", f"has {size} bytes as JSON; at most {limits.MAX_INPUT_BYTES} are allowed")
    steps = parse.steps(flow, report)
    for key, step in steps.items():
        if step.tool is not None and (problem := known(step.tool)):
            report(parse.place(key, "tool"), problem)
    parse.check_templates(steps, given, with_results, report)
    if with_results:
        graph.check_results(steps, report)
    checked = graph.check(steps, report)
    if problems:
        raise refused(problems)
    return checked


def refused(problems: list[str]) -> ToolFailure:
    """The failure for a flow with these problems."""
    if len(problems) == 1:
        message = problems[0]
    else:
        more = len(problems) - MOST_SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        message = f"{len(problems)} problems: {'; '.join(problems[:MOST_SHOWN])}{rest}"
    return ToolFailure("VALIDATION_ERROR", message, data={"problems": problems})
