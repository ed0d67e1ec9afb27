"""``fleet gateway check``: lists what is wrong with a gateway's configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.processes.gateway_settings import findings
from coordinator.settings import LoadedSettings, Settings, SettingsError, convert, load_settings
from coordinator.settings.problems import KeyPath
from coordinator.settings.sections.gateway import includes
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.settings.yaml_file import read_yaml
from coordinator.toolsets.gateway import Catalogue
from coordinator.wording import counted


def check(
    file: Annotated[
        Path, Parameter(help="A config file with the section gateway, or the section alone.", metavar="FILE")
    ],
) -> int:
    loaded = _loaded(file)
    if loaded.settings.gateway is None:
        raise CommandFailed(f"{file} has no section 'gateway'", Exit.USAGE)
    sentences = findings(loaded)
    for level, sentence in sentences:
        print(f"{level}: {sentence}")
    errors = sum(level == "error" for level, _ in sentences)
    if errors:
        print(f"{counted(errors, 'error')}, {counted(len(sentences) - errors, 'warning')}")
        return Exit.FAILED
    print(_summary(loaded.settings, len(sentences)))
    return Exit.OK


def _loaded(file: Path) -> LoadedSettings:
    """The settings in a config file, or in a file that holds only the section ``gateway``."""
    data, lines = read_yaml(file)
    if includes.SECTION in data or not {"version", "workflows", "capabilities", "proxy"} & data.keys():
        return load_settings({}, {}, file)
    problems: list[tuple[str, str]] = []
    section, places = includes.expanded(data, {(includes.SECTION, *at): line for at, line in lines.items()}, file)

    def report(at: KeyPath, sentence: str) -> None:
        problems.append((includes.nearest(places, at) or str(file), sentence))

    made = convert.convert(section, Gateway, (includes.SECTION,), report)
    if problems:
        raise SettingsError(f"{place}: {sentence}" for place, sentence in problems)
    loaded = load_settings({}, {}, None)
    settings = Settings(gateway=made)
    return dataclasses.replace(loaded, settings=settings, config=file.absolute(), places=places)


def _summary(settings: Settings, warnings: int) -> str:
    catalogue = Catalogue(settings.gateway, settings.connections)
    gateway = catalogue.gateway
    counts = (
        counted(len(catalogue.workflows), "workflow"),
        counted(len(catalogue.capabilities), "capability", "capabilities"),
        counted(len(gateway.proxy.imports), "server") + " to import from",
        counted(len(gateway.connections), "connection"),
        counted(warnings, "warning"),
    )
    return "sound: " + ", ".join(counts)
