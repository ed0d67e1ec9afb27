"""Checks the section ``gateway``, whenever settings are read: at a start, at a reload, by ``fleet gateway check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from coordinator.settings import LoadedSettings, SettingsError
from coordinator.settings.problems import unknown


def sound(loaded: LoadedSettings) -> LoadedSettings:
    """The settings, if the gateway's section has no errors.

    Raises:
        SettingsError: with every error and its place.
    """
    if loaded.settings.gateway is not None:
        errors = [sentence for level, sentence in findings(loaded) if level == "error"]
        if errors:
            raise SettingsError(errors)
    return loaded


def findings(loaded: LoadedSettings) -> list[tuple[str, str]]:
    """All problems of the section: ``error`` or ``warning``, and a sentence with its place."""
    # Imported here, because most fleets have no gateway.
    from coordinator.toolsets.gateway.rules.lint import problems

    settings = loaded.settings
    if settings.gateway is None:
        return []
    found = problems(settings.gateway, settings.connections, _problem_with_tool)
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
    owners = _toolsets_by_tool()
    having = owners.get(name)
    if having is None:
        return unknown("tool", name, owners)
    if len(having) == 1:
        return ""
    return f"several toolsets have a tool {name!r}; say {' or '.join(f'{one}.{name}' for one in having)}"


@cache
def _toolsets_by_tool() -> Mapping[str, Sequence[str]]:
    # Imported here, because loading all toolsets takes long, and many gateways name none of their tools.
    from coordinator.cli.described import described_toolsets
    from coordinator.steps.names import owners

    return owners({name: [tool.name for tool in toolset.tools] for name, toolset in described_toolsets().items()})
