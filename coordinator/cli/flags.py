"""Gives a command the flags of all settings, and hands it the settings in force.

    @with_settings(without=("port",))
    def worker(loaded: LoadedSettings, *, burst: bool = False) -> int: ...

The command's own parameters are unchanged; ``--config`` and one flag per setting are added after them. Its help page
lists the common flags (``LISTED``), each with the first sentence of the setting's description. Flags are passed on as
text, so that values from all sources are converted and rejected in one place, with the same messages. FLEET_PROJECT
stands for ``--project`` where this has the default project.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import msgspec
from cyclopts import Group, Parameter

from coordinator.cli.checks import by_flag, check_project_name
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.errors import that_exist
from coordinator.processes.fleetfile import read_fleet
from coordinator.processes.sound import sound
from coordinator.settings import PROJECT_VARIABLE, URL_VARIABLE, LoadedSettings, Settings, load_settings, redacted
from coordinator.settings.fields import Field, bare, fields_of, is_list
from coordinator.store.keys import DEFAULT_PROJECT, PROJECT

P = ParamSpec("P")

LISTED = (
    *("host", "port", "worker_port", "frontends", "workers", "data_dir", "drain_seconds", "redis_url", "toolsets"),
    "log_level",
)
"""The settings on the help page of a command that takes all of them."""
_SOURCES = (
    "Each is also a variable of the environment (FLEET_DATA_DIR for --data-dir) and an entry of the config file "
    "(data_dir); a flag wins over a variable, a variable over the file. `fleet config example` explains them, `fleet "
    "config show` prints what is in force."
)
_OF_READERS = {"redis_url": "The fleet's Redis. Empty takes that of the fleet that runs on the data directory."}
_COMMON = "The common ones; the others that concern this command have flags here, too. "
_SENTENCES = re.compile(r"(?<=[.]) ")


def with_settings(
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    listed: Collection[str] = LISTED,
    starts_store: bool = False,
    finds_fleet: bool | None = None,
) -> Callable[[Callable[Concatenate[LoadedSettings, P], int | None]], Callable[..., int | None]]:
    """Decorates a command whose first parameter is the ``LoadedSettings``.

    Args:
        without: names of settings without effect in this command. It gets no flags for them, but environment and file
            may still set them.
        only: names of the settings that it gets flags for, all of them in its help; by default it gets all settings.
        listed: names of the settings that its help lists if it gets all.
        starts_store: whether it may start a Redis of its own if no URL is given; other commands use one that runs.
        finds_fleet: whether its settings say only which fleet it is about (``of_one_fleet``). Default: it gets no
            others than some, with ``redis_url``.
    """
    if finds_fleet is None:
        finds_fleet = only is not None and "redis_url" in only and not starts_store
    names = set(Settings.__struct_fields__ if only is None else only) - set(without)
    wanted = names & set(listed) if only is None else names
    fields = [field for field in fields_of(Settings) if field.flag is not None and field.name in names]

    def decorate(command: Callable[Concatenate[LoadedSettings, P], int | None]) -> Callable[..., int | None]:
        def run(*args: Any, config: Path | None = None, **kwargs: Any) -> int | None:
            flags = {field.name: kwargs.pop(field.name, None) for field in fields}
            loaded = sound(load_settings(flags, os.environ, config))
            if finds_fleet:
                loaded = of_one_fleet(loaded, takes_url)
            if project == DEFAULT_PROJECT and (named := os.environ.get(PROJECT_VARIABLE)):
                kwargs.setdefault("project", named)
            if project == DEFAULT_PROJECT and "project" in kwargs:
                check_project_name(kwargs["project"], rule=PROJECT)
            check_listed(loaded.settings, kwargs.get("project", project))
            return command(loaded, *args, **kwargs)

        signature = inspect.signature(command, eval_str=True)
        project = signature.parameters["project"].default if "project" in signature.parameters else None
        takes_url = "by_url" in signature.parameters
        own = list(signature.parameters.values())[1:]
        added = _annotations(fields, wanted, {} if starts_store else _OF_READERS)
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in added.items()
        ]
        # cyclopts reads the signature for the parameters and the annotations for their types.
        run.__signature__ = signature.replace(parameters=[*own, *extra])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in [*own, *extra]}
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        return run

    return decorate


def of_one_fleet(loaded: LoadedSettings, takes_url: bool = False) -> LoadedSettings:
    """The settings of a command about one fleet: with ``--data-dir`` it is the one that runs there.

    So a ``redis_url`` of the environment or the file counts only if it is this fleet's.

    Args:
        takes_url: whether the command works over a URL, too.

    Raises:
        CommandFailed: only FLEET_URL names the fleet, but the command needs the store.
    """
    settings = loaded.settings
    if by_flag(loaded, "data_dir") and settings.redis_url and not by_flag(loaded, "redis_url"):
        fleet = read_fleet(Path(settings.data_dir))
        if fleet is None or fleet.store != redacted(settings.redis_url):
            own = msgspec.structs.replace(settings, redis_url="")
            return dataclasses.replace(loaded, settings=own, sources={**loaded.sources, "redis_url": "default"})
    named = any(loaded.sources[name] != "default" for name in ("data_dir", "redis_url"))
    if os.environ.get(URL_VARIABLE) and not named and not takes_url:
        raise CommandFailed(
            f"this works on the store of a fleet, and only {URL_VARIABLE} says which fleet: give --redis-url, or "
            "--data-dir on its machine",
            Exit.USAGE,
        )
    return loaded


def check_listed(settings: Settings, project: str | Collection[str] | None) -> None:
    """Checks the project, or projects, of ``--project`` against the setting ``projects``, which may close the list."""
    wanted = (project,) if isinstance(project, str) else project or ()
    for name in wanted if settings.projects else ():
        # The command itself reports malformed names.
        if name not in settings.projects and PROJECT.fullmatch(name):
            exist = that_exist(name, settings.projects)
            raise CommandFailed(f"there is no project '{name}' (setting projects){exist}", Exit.USAGE)


def _annotations(fields: list[Field], listed: Collection[str], helps: Mapping[str, str]) -> dict[str, Any]:
    """``name -> Annotated[str | None, Parameter]``, ``--config`` first; ``helps`` replaces descriptions of settings."""
    group = Group("Settings", help=_note(fields, listed), sort_key=10)
    config = Parameter(
        name="--config",
        help="YAML file with settings; `fleet config example` prints one. [env: FLEET_CONFIG]",
        group=group,
        metavar="FILE",
    )
    annotations: dict[str, Any] = {"config": Annotated[Path | None, config]}
    for field in fields:
        parameter = Parameter(
            name=field.flag,
            help=helps.get(field.name) or _summary(field),
            group=group,
            show=field.name in listed,
            metavar=_metavar(field),
            show_default=False,
        )
        annotations[field.name] = Annotated[bool | None if bare(field.type) is bool else str | None, parameter]
    return annotations


def _note(fields: list[Field], listed: Collection[str]) -> str:
    """What the help says about the settings as a whole."""
    if not fields:
        return ""
    return _SOURCES if len(fields) == len(listed) else _COMMON + _SOURCES


def _summary(field: Field) -> str:
    """What the help says about a setting: the beginning of its description, and what its empty value means."""
    first, *more = _SENTENCES.split(field.description)
    default = ",".join(field.default) if isinstance(field.default, tuple) else str(field.default)
    if default and default != "0":
        return f"{first} [default: {default}]"
    return " ".join((first, *(line for line in more if line.startswith(("Empty", "0: ")))))


def _metavar(field: Field) -> str:
    kind = bare(field.type)
    if field.unit:
        return field.unit.upper()
    return "LIST" if is_list(kind) else "N" if kind is int else "TEXT" if kind is str else "WORD"
