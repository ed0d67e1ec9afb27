"""Looks through the section ``gateway`` wherever settings are read: at a start, at a reload, by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from coordinator.settings import LoadedSettings, Settings, SettingsError


def sound(loaded: LoadedSettings) -> LoadedSettings:
    """The settings, if nothing is wrong with what the gateway is to serve.

    Raises:
        SettingsError: with every error and its place.
    """
    if loaded.settings.gateway is not None:
        errors = [sentence for level, sentence in told(loaded) if level == "error"]
        if errors:
            raise SettingsError(errors)
    return loaded


def told(loaded: LoadedSettings) -> list[tuple[str, str]]:
    """Everything that is wrong or odd: ``error`` or ``warning``, and a sentence with its place."""
    # Imported here: most fleets that are started have no gateway.
    from coordinator.toolsets.gateway.rules.lint import problems

    settings = loaded.settings
    if settings.gateway is None:
        return []
    found = problems(settings.gateway, settings.connections, _own_tools())
    sentences: list[tuple[str, str]] = []
    for problem in found:
        name = ".".join(map(str, problem.path))
        place = loaded.place(problem.path)
        sentences.append(
            (problem.level, f"{place}: {name}: {problem.sentence}" if place else f"{name}: {problem.sentence}")
        )
    return sentences


def _own_tools() -> Callable[[str], str]:
    """Judges the names of the coordinator's own tools; these are loaded when the first one is named."""

    @cache
    def known() -> Callable[[str], str]:
        from coordinator.identity.noop import trust_self_reported
        from coordinator.settings.problems import unknown
        from coordinator.steps.names import owners
        from coordinator.store import Store
        from coordinator.toolsets import load_toolsets
        from coordinator.toolsets.tool import Services

        store = Store("redis://localhost")  # which nobody opens
        toolsets = load_toolsets(Services(Settings(), store, trust_self_reported))
        names = owners({name: [tool.name for tool in room.tools] for name, room in toolsets.items()})

        def problem(name: str) -> str:
            having = names.get(name)
            if having is None:
                return unknown("tool", name, names)
            if len(having) == 1:
                return ""
            return f"several toolsets have a tool {name!r}; say {' or '.join(f'{one}.{name}' for one in having)}"

        return problem

    return lambda name: known()(name)
