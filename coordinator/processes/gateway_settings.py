"""Checks the section ``gateway``, whenever settings are read, and for ``fleet gateway check``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings, Settings
from coordinator.settings.problems import unknown

if TYPE_CHECKING:
    from coordinator.toolsets.gateway import Level


def findings(loaded: LoadedSettings) -> list[tuple[str, str]]:
    """All problems of the section: ``error`` or ``warning``, and a sentence with its location."""
    # Imported here, because most fleets have no gateway.
    from coordinator.toolsets.gateway import problems

    settings = loaded.settings
    if settings.gateway is None:
        return []
    found = problems(settings.gateway, settings.connections, _problem_with_tool, partial(_problems_with_flow, settings))
    sentences: list[tuple[str, str]] = []
    for problem in found:
        name = ".".join(map(str, problem.path))
        place = loaded.place(problem.path)
        sentences.append(
            (problem.level, f"{place}: {name}: {problem.sentence}" if place else f"{name}: {problem.sentence}")
        )
    return sentences


def _problem_with_tool(name: str) -> str:
    """What is wrong with the name of one of the coordinator's own tools; empty: nothing."""
    from coordinator.steps.names import ambiguity, owners

    known = owners(_own_tools())
    return ambiguity(name, known[name]) if name in known else unknown("tool", name, known)


def _problems_with_flow(settings: Settings, flow: Mapping[str, Any]) -> Iterator[tuple[Level, str]]:
    """Problems of a flow with any input. Unknown tools are warnings: they may exist when it runs."""
    from coordinator.steps.names import StepNames
    from coordinator.toolsets.flows import check_flow, place

    try:
        steps = check_flow(flow, None, lambda name: "", with_results=settings.flows.step_results)
    except ToolFailure as failure:
        for sentence in (failure.data or {}).get("problems", [failure.message]):
            yield "error", sentence
        return
    names = StepNames(settings)
    names.declare(_own_tools())
    for key, step in steps.items():
        if step.tool is not None and (problem := names.problem(step.tool)):
            yield "warning", f"{place(key, 'tool')}: {problem}"


@cache
def _own_tools() -> Mapping[str, Sequence[str]]:
    # Imported here, because loading all toolsets is slow, and many gateways use none of their tools.
    from coordinator.toolsets.registry import described_toolsets

    return {name: [tool.name for tool in toolset.tools] for name, toolset in described_toolsets().items()}
