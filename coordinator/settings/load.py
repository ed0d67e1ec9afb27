"""Merges flags, environment, file and defaults into the settings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import platformdirs
from msgspec import Struct

from coordinator.settings import convert
from coordinator.settings.contradictions import contradictions
from coordinator.settings.fields import (
    ENVIRONMENT_PREFIX,
    Field,
    allowed,
    bare,
    default_of,
    fields_of,
    is_struct,
    parts_of,
)
from coordinator.settings.model import Settings
from coordinator.settings.paths import Locate, located
from coordinator.settings.problems import KeyPath, SettingsError, is_text, unknown
from coordinator.settings.sections import auth, connections, identity, workflows
from coordinator.settings.sections.gateway import includes

if TYPE_CHECKING:
    from coordinator.settings.yaml_file import Lines

CONFIG_VARIABLE = "FLEET_CONFIG"
TOKEN_VARIABLE = "FLEET_TOKEN"  # noqa: S105 (the name of a variable)
"""The variable with the credential of a client, for commands that act for it (as MCP defines it for stdio)."""
URL_VARIABLE = "FLEET_URL"
PROJECT_VARIABLE = "FLEET_PROJECT"
AGENT_VARIABLE = "FLEET_AGENT"
ITEM_VARIABLE = "FLEET_ITEM_ID"

INTERNAL_ENVIRONMENT: dict[str, str] = {
    CONFIG_VARIABLE: "path of the YAML file, unless --config gives it",
    "FLEET_METRICS_DIR": "directory that the processes of one fleet share their metrics in, if not in data_dir",
    "FLEET_REDIS_PASSWORD": "password for redis_url, kept out of the URL and so out of process listings",
    "FLEET_TO_PASSWORD": "password for the URL of --to, for `fleet project copy`",
    "FLEET_REDIS_SERVER": "binary to run as the embedded Redis",
    TOKEN_VARIABLE: "bearer token of the one client that `fleet stdio` serves, and of commands that call a fleet",
    # What commands that call a fleet take, unless a flag says otherwise.
    URL_VARIABLE: "base URL of the fleet",
    PROJECT_VARIABLE: "project, also of every other command that has --project",
    AGENT_VARIABLE: "id of the agent that acts",
    # What `fleet run` tells the command that works on an item, and so every `fleet` command that this one starts.
    ITEM_VARIABLE: "the item; `fleet items` takes it where an id is written as a dot",
    "FLEET_WORKSPACE": "directory of the work",
    "FLEET_REPOSITORY": "repository that the directory of the work is a worktree of; for hooks",
    "FLEET_BRANCH": "branch of that worktree; for hooks",
    "FLEET_RESULT_FILE": "where the command writes the result",
    "FLEET_MCP_CONFIG": "path of the MCP configuration with the server entry of this claim",
    "FLEET_RUN": "id of the attempt, by which its processes are found",
}
"""Known variables that are not settings. Any other unknown FLEET_* variable is an error."""

S = TypeVar("S", bound=Struct)
Values = dict[KeyPath, Any]
Check = Callable[[S, Collection[str]], Iterable[tuple[KeyPath, str]]]
"""Finds contradictions between settings; also gets the names of the settings that are invalid by themselves."""


@dataclasses.dataclass(slots=True, frozen=True)
class Loaded(Generic[S]):
    """Settings in force and where each came from."""

    settings: S
    sources: dict[str, str]
    """Setting name -> ``flag --port``, ``environment FLEET_PORT``, ``file /x/fleet.yaml:12`` or ``default``."""
    config: Path | None
    """The YAML file that was read, if any."""
    lines: Lines
    """The line of each entry in the file."""
    reread: Callable[[], Loaded[S]]
    """Loads once more from the same flags, environment and file. Raises SettingsError."""
    places: includes.Places = dataclasses.field(default_factory=dict)
    """The places of all entries of a section that is merged from several files."""

    def place(self, at: KeyPath) -> str:
        """The place of an entry: ``/etc/fleet.yaml:12``; empty: it is in no file."""
        included = includes.nearest(self.places, at)
        return included or (f"{self.config}:{_line(self.lines, at)}" if self.config is not None else "")


LoadedSettings = Loaded[Settings]


class _Problems:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.broken: set[str] = set()
        """The top-level names of the settings with problems."""

    def add(self, sentence: str, name: object = None) -> None:
        self.sentences.append(sentence)
        self.broken.add(str(name))


def load_settings(flags: Mapping[str, object], env: Mapping[str, str], config: Path | None = None) -> LoadedSettings:
    """The coordinator's settings, checked whole.

    Args:
        flags: setting name -> value; None means not given. Lists may be sequences or
            comma-separated text.
        env: the environment; only FLEET_*, DEGRADED_MODE_POLICY and AGENT_CONFIG_DIR count.
        config: path from ``--config``; else FLEET_CONFIG names the file, else there is none.

    Raises:
        SettingsError: with every problem found.
    """
    loaded = load(Settings, flags, env, config, contradictions)
    settings = msgspec.structs.replace(
        loaded.settings,
        data_dir=_data_dir(loaded),
        actor_authentication=_actor_authentication(loaded, env),
        auth=auth.located_auth(
            loaded.settings.auth,
            _locate(loaded, "auth.tokens"),
            _locate(loaded, "auth.verifier", ".jwks_path", _key_directory(env)),
        ),
        connections=connections.located_connections(
            loaded.settings.connections, _locate(loaded, "connections", ": workingDirectory")
        ),
        workflows=workflows.located_workflows(
            loaded.settings.workflows, _locate(loaded, "workflows.sessions"), _locate(loaded, "workflows.navigator")
        ),
    )
    again = functools.partial(load_settings, dict(flags), dict(env), loaded.config)
    return dataclasses.replace(loaded, settings=settings, reread=again)


def load(
    cls: type[S],
    flags: Mapping[str, object],
    env: Mapping[str, str],
    config: Path | None = None,
    check: Check[S] = lambda settings, broken: (),
) -> Loaded[S]:
    """Fills any settings struct; ``load_settings`` adds what is specific to the coordinator's.

    Raises:
        SettingsError: with every problem found.
    """
    problems = _Problems()
    values: Values = {}
    sources: dict[str, str] = {}
    lines: Lines = {}
    places: includes.Places = {}

    def take(path: KeyPath, value: object, source: str) -> None:
        values[path] = value
        sources[".".join(map(str, path))] = source

    fields = fields_of(cls)
    path = _config_path(env, config)
    if path is not None:
        for where, value in _from_file(cls, path, lines, places, problems).items():
            take(where, value, f"file {path}:{_line(lines, where)}")
    for field, value in _from_environment(fields, env, problems):
        take(field.path, value, f"environment {field.environment if field.environment in env else field.alias}")
    for field, value in _from_flags(fields, flags, problems):
        take(field.path, value, f"flag {field.flag}")
    settings = _build(cls, values, (), problems)
    for at, sentence in check(settings, problems.broken) if settings is not None else ():
        problems.add(f"{path}:{_line(lines, at)}: {sentence}" if at[:1] in lines else sentence)
    if settings is None or problems.sentences:
        raise SettingsError(problems.sentences)
    return Loaded(
        settings,
        {field.name: sources.get(field.name, "default") for field in fields},
        path,
        lines,
        functools.partial(load, cls, dict(flags), dict(env), path, check),
        places,
    )


def _config_path(env: Mapping[str, str], config: Path | None) -> Path | None:
    if config is None and (named := env.get(CONFIG_VARIABLE)):
        config = Path(named)
    return located(str(config), Path.cwd(), "the config file") if config is not None else None


def _from_file(cls: type[Struct], path: Path, lines: Lines, places: includes.Places, problems: _Problems) -> Values:
    # Imported here, because importing the YAML parser takes 100 ms, and many processes have no file.
    from coordinator.settings.yaml_file import read_yaml

    try:
        data, lines_of_file = read_yaml(path)
    except SettingsError as error:
        for sentence in error.problems:
            problems.add(sentence)
        return {}
    lines.update(lines_of_file)
    if data.get(includes.SECTION) is not None and includes.SECTION in parts_of(cls):
        try:
            data[includes.SECTION], more = includes.expanded(data[includes.SECTION], lines, path)
        except SettingsError as error:
            for sentence in error.problems:
                problems.add(sentence, includes.SECTION)
            del data[includes.SECTION]
        else:
            places.update(more)

    located_problems: list[tuple[int, str, str, object]] = []

    def report(at: KeyPath, sentence: str) -> None:
        line = _line(lines, at)
        located_problems.append(
            (line, includes.nearest(places, at) or f"{path}:{line}", sentence, at[0] if at else None)
        )

    values = convert.section(data, cls, (), report)
    for _, place, sentence, name in sorted(located_problems, key=lambda one: one[0]):
        problems.add(f"{place}: {sentence}", name)
    return values


def _line(lines: Lines, at: KeyPath) -> int:
    """The line of an entry, or of the nearest entry around it: keys merged in with ``<<`` have no line of their own."""
    while at and at not in lines:
        at = at[:-1]
    return lines.get(at, 1)


def _from_environment(
    fields: tuple[Field, ...], env: Mapping[str, str], problems: _Problems
) -> list[tuple[Field, Any]]:
    twins = {field.environment: field for field in fields if field.environment is not None}
    values: list[tuple[Field, Any]] = []
    for name in sorted(env):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in INTERNAL_ENVIRONMENT:
            continue
        if name not in twins:
            problems.add(unknown("environment variable", name, [*twins, *INTERNAL_ENVIRONMENT]))
            continue
        _convert_text(twins[name], env[name], f"environment {name}", values, problems)
    for field in fields:
        if not field.alias or field.alias not in env:
            continue
        if field.environment is not None and env.get(field.environment, env[field.alias]) != env[field.alias]:
            problems.add(
                f"environment {field.alias} and environment {field.environment} say different things about "
                f"{field.name}: set one of them",
                field.path[0],
            )
        _convert_text(field, env[field.alias], f"environment {field.alias}", values, problems)
    return values


def _from_flags(fields: tuple[Field, ...], flags: Mapping[str, object], problems: _Problems) -> list[tuple[Field, Any]]:
    known = {field.path[0]: field for field in fields if field.flag is not None}
    values: list[tuple[Field, Any]] = []
    for name, value in flags.items():
        if name not in known:
            problems.add(unknown("flag", "--" + name.replace("_", "-"), (str(f.flag) for f in known.values())))
        elif value is not None:
            _convert_text(known[name], value, f"flag {known[name].flag}", values, problems)
    return values


def _convert_text(
    field: Field, value: object, source: str, values: list[tuple[Field, Any]], problems: _Problems
) -> None:
    if isinstance(value, str) and not is_text(value):
        problems.add(f"{source}: {field.name} must be text in UTF-8{convert.got(field.type, value)}", field.path[0])
        return
    try:
        if isinstance(value, str):
            values.append((field, convert.from_text(field, value)))
        else:
            values.append((field, msgspec.convert(value, field.type, strict=False)))
    except msgspec.ValidationError:
        problems.add(f"{source}: {field.name} must be {field.allowed}{convert.got(field.type, value)}", field.path[0])


def _build(cls: type[S], values: Values, path: tuple[str, ...], problems: _Problems) -> S | None:
    """The struct and its sections from flattened values and defaults; None: it cannot be built, see ``problems``."""
    arguments: dict[str, Any] = {}
    whole = True
    for field in msgspec.structs.fields(cls):
        here = (*path, field.encode_name)
        kind = bare(field.type)
        if is_struct(kind):
            if field.required or any(key[: len(here)] == here for key in values):
                arguments[field.name] = _build(kind, values, here, problems)
                whole = whole and arguments[field.name] is not None
        elif here in values:
            arguments[field.name] = values[here]
        elif default_of(field) is msgspec.NODEFAULT:
            whole = False
            if here[0] not in problems.broken:
                problems.add(f"{'.'.join(here)} is missing; it must be {allowed(field.type)}", here[0])
    if not whole:
        return None
    try:
        return cls(**arguments)
    except ValueError as error:
        problems.add(f"{'.'.join(path)}: {error}" if path else str(error), path[0] if path else None)
        return None


def _data_dir(loaded: LoadedSettings) -> str:
    written = loaded.settings.data_dir
    if not written:
        try:
            return str(platformdirs.user_state_path("fleet-coordinator").absolute())
        except RuntimeError:
            raise SettingsError(
                [
                    "data_dir is not set, and the user has no home directory (no HOME, no entry in the list of users), "
                    "where it would be by default: name a directory with --data-dir or FLEET_DATA_DIR"
                ]
            ) from None
    return _locate(loaded, "data_dir")(written)


def _actor_authentication(loaded: LoadedSettings, env: Mapping[str, str]) -> identity.ActorAuthentication:
    """The section with an absolute path to the key file.

    Raises:
        SettingsError: keys are configured that would not be used.
    """
    section = loaded.settings.actor_authentication
    path = ("actor_authentication", "verifier")
    if sentence := identity.unused_verifier(section.verifier, path, loaded.sources):
        at = f"{loaded.config}:{_line(loaded.lines, path)}: " if path in loaded.lines else ""
        raise SettingsError([at + sentence])
    locate = _locate(loaded, ".".join((*path, "jwks_path")), base=_key_directory(env))
    return msgspec.structs.replace(section, verifier=identity.located_verifier(section.verifier, locate))


def _key_directory(env: Mapping[str, str]) -> Path | None:
    """Where relative paths to key files (``jwks_path``) start; None: where other paths start."""
    named = env.get(identity.BASE_VARIABLE)
    return located(named, Path.cwd(), f"environment {identity.BASE_VARIABLE}") if named else None


def _locate(loaded: LoadedSettings, name: str, part: str = "", base: Path | None = None) -> Locate:
    """A function that makes the paths in the setting ``name`` absolute.

    Args:
        part: the part of the setting that holds the path.
        base: where a relative path starts; None: at the config file's directory if the setting comes from the file,
            else at the working directory.
    """
    source = loaded.sources[name].removeprefix("file ")
    if base is None:
        in_file = loaded.sources[name].startswith("file ")
        base = loaded.config.parent if in_file and loaded.config is not None else Path.cwd()
    return lambda written: str(located(written, base, f"{source}: {name}{part}"))
