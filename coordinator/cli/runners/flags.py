"""The flags of ``fleet run``, also as entries of the section ``runners``, and the options that they make."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from cyclopts import Group, Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.runner.commands import CannotStart
from coordinator.runner.environment import NAME, absolute, environment_of
from coordinator.runner.options import PLACES, Options, Selection, unknown_place
from coordinator.runner.presets import PRESETS, preset_of
from coordinator.runner.protocols import Workspaces
from coordinator.runner.recording import metrics_directories
from coordinator.runner.records import PLACES as PLACES_OF_STATE
from coordinator.runner.reports.usage import COUNTED, Most
from coordinator.runner.workspaces import MIN_FREE, Directories, Hooks, Worktrees
from coordinator.units import SECONDS, budget, milliseconds

_GIB = 1 << 30
_MOST_SLOTS = 200
_DEFAULTS: Mapping[str, Any] = {
    "slots": 1,
    "ttl": "15m",
    "timeout": "2h",
    "stall": "15m",
    "max_items": 0,
    "max_cost": 0.0,
    "max_time": "0",
    "drain": "30s",
}

_SELECTION = Group("Which items", sort_key=1)
_LIMITS = Group("Limits", sort_key=2)
_COMMAND = Group("The command", sort_key=3)
_WORKSPACE = Group("Where it works", sort_key=4)

Text = str | None
Flag = bool | None


def _more(text: str) -> Parameter:
    """A flag that README.md of the runner shows, and not the help page."""
    return Parameter(show=False, help=text)


@Parameter(name="*", group=_SELECTION)
@dataclass(frozen=True)
class Items:
    """The flags that choose items."""

    tags: Annotated[Text, Parameter(help="Any of these tags, after commas.")] = None
    type: Annotated[Text, _more("Only this type.")] = None
    priority: Annotated[Text, _more("Only this priority: high, medium or low.")] = None
    parent: Annotated[Text, _more("Only children of this item.")] = None
    ancestor: Annotated[Text, Parameter(help="Only items below this one, at any depth.")] = None
    capability: Annotated[
        tuple[str, ...], _more("What the command can do, for items that require it; repeatable.")
    ] = ()
    until_tree: Annotated[Text, Parameter(help="Only items below this one; end when none of them is open.")] = None


@Parameter(name="*", group=_LIMITS)
@dataclass(frozen=True)
class Limits:
    """The flags that bound a runner."""

    slots: Annotated[int | None, Parameter(help="How many commands run side by side. [default: 1]")] = None
    ttl: Annotated[Text, _more("How long a claim lasts if this runner dies. [default: 15m]")] = None
    timeout: Annotated[
        Text, Parameter(help="How long a command may run: 90s, 15m, 1.5h; it is ended within 20 s. [default: 2h]")
    ] = None
    stall: Annotated[
        Text,
        Parameter(
            show=False,
            help="How long a command may do nothing: no output, CPU time or changed file; 0: for ever. [default: 15m]",
        ),
    ] = None
    max_items: Annotated[int | None, Parameter(help="End after so many items.")] = None
    max_cost: Annotated[float | None, Parameter(help="End when the commands have cost so many dollars.")] = None
    max_time: Annotated[Text, _more("Claim nothing after this time.")] = None
    usage_per_attempt: Annotated[
        Text,
        _more("What is counted of what a command says that it has used. [default: cost=25,tokens=50000000]"),
    ] = None
    drain: Annotated[Text, _more("How long commands may go on when the runner is told to stop. [default: 30s]")] = None


@Parameter(name="*", group=_COMMAND)
@dataclass(frozen=True)
class How:
    """The flags about the command and what counts as success."""

    preset: Annotated[
        Text, Parameter(help=f"The agent: {', '.join(PRESETS)}. Default: by the name of the program.")
    ] = None
    verify: Annotated[Text, Parameter(help="A command that must succeed before the item is done; no shell.")] = None
    require_changes: Annotated[Flag, _more("An attempt that changed no file has failed.")] = None
    allow_denials: Annotated[Flag, _more("Succeed even if the agent was denied a permission.")] = None
    yolo: Annotated[Flag, Parameter(help="Let the agent of the preset do everything without asking.")] = None
    mcp: Annotated[Flag, Parameter(help="Give it the tools of /mcp/worker, for its item only.")] = None
    env: Annotated[
        tuple[str, ...],
        _more("Pass on this variable of the environment (NAME, or NAME*); repeatable."),
    ] = ()
    instructions: Annotated[Text, _more("File with text that comes first in each prompt.")] = None


@Parameter(name="*", group=_WORKSPACE)
@dataclass(frozen=True)
class Where:
    """The flags about workspaces and logs."""

    worktree: Annotated[Text, Parameter(help="A git repository: a worktree for each attempt.")] = None
    base: Annotated[Text, _more("The ref that worktrees begin at. Default: what is checked out there.")] = None
    fresh: Annotated[Flag, _more("Begin each attempt at the base, not where the last one ended.")] = None
    salvage: Annotated[Flag, _more("Keep what is not committed on a ref, and remove the worktree.")] = None
    workspace: Annotated[Text, Parameter(help="A directory instead. Default: this one.")] = None
    setup: Annotated[Text, _more("Runs when a workspace was made.")] = None
    before: Annotated[Text, _more("Runs before each attempt; if it fails, so does the attempt.")] = None
    after: Annotated[Text, _more("Runs after the command, before the work is committed.")] = None
    teardown: Annotated[Text, _more("Runs before a workspace is removed.")] = None
    min_free: Annotated[float | None, _more("GiB that must be free for a workspace. [default: 5 for worktrees]")] = None
    disposable: Annotated[tuple[str, ...], _more("Ignored files of worktrees that are not worth keeping.")] = ()
    metrics: Annotated[Text, _more("Serve /metrics and /healthz at this port, or host:port.")] = None
    metrics_target: Annotated[Text, _more("Write that address to this file, for Prometheus.")] = None
    state_dir: Annotated[Text, _more("Directory for logs and worktrees. Default: in the user's state directory.")] = (
        None
    )


def given(*flags: object) -> dict[str, Any]:
    """The flags that were given, by name."""
    chosen = {each.name: getattr(flag, each.name) for flag in flags for each in fields(flag)}  # type: ignore[arg-type]
    return {name: value for name, value in chosen.items() if value not in (None, ())}


def options_of(command: tuple[str, ...], flags: Mapping[str, Any]) -> Options:
    """The checked options of a runner. Raises CannotStart: the command was not found."""
    chosen = {**_DEFAULTS, **flags}
    get = chosen.get
    name = get("preset")
    if name is not None and name not in PRESETS:
        raise CommandFailed(f"--preset: must be one of {', '.join(PRESETS)}, not {name}", Exit.USAGE)
    preset = preset_of(command, name)
    command = command or ((preset.program,) if preset.program else ())
    if not command:
        raise CommandFailed("needs a command after --, --preset, or --runner", Exit.USAGE)
    verify = _words("--verify", get("verify"))
    for words in (command, verify):
        if place := unknown_place(words):
            known = ", ".join(f"{{{place_name}}}" for place_name in PLACES)
            raise CommandFailed(f"{place} in the command is not known: it can have {known}", Exit.USAGE)
    if get("yolo") and not preset.yolo:
        raise CommandFailed("--yolo needs a preset that has such a mode", Exit.USAGE)
    passed = tuple(get("env", ()))
    if wrong := next((name for name in passed if not NAME.fullmatch(name)), None):
        raise CommandFailed(f"--env: must be the name of a variable, without a value, not {wrong}", Exit.USAGE)
    if get("priority") not in (None, "high", "medium", "low"):
        raise CommandFailed("--priority: must be high, medium or low", Exit.USAGE)
    check_range("--slots", chosen["slots"], 1, _MOST_SLOTS)
    check_range("--max-items", chosen["max_items"], 0, 1_000_000_000)
    check_range("--max-cost", chosen["max_cost"], 0, 1_000_000)
    times = {
        flag: seconds_of(f"--{flag.replace('_', '-')}", chosen[flag])
        for flag in ("ttl", "timeout", "stall", "max_time", "drain")
    }
    check_range("--ttl", times["ttl"], 10, 86_400)
    if "/" not in command[0]:  # else it is looked for in the workspace, when the runner starts
        if (program := shutil.which(command[0], path=absolute(os.environ.get("PATH", os.defpath)))) is None:
            raise CannotStart("command", f"{command[0]} was not found in the absolute directories of PATH")
        command = (program, *command[1:])
    return Options(
        command=command,
        state=state_of(get("state_dir")),
        preset=preset,
        selection=Selection(
            tags=get("tags"),
            type=get("type"),
            priority=get("priority"),
            parent=get("parent"),
            ancestor=get("ancestor") or get("until_tree"),
            capabilities=tuple(get("capability", ())) or None,
            until_tree=get("until_tree"),
        ),
        slots=chosen["slots"],
        verify=verify,
        allow_denials=bool(get("allow_denials")),
        require_changes=bool(get("require_changes")),
        yolo=bool(get("yolo")),
        mcp=bool(get("mcp")),
        environment=dict(os.environ),
        passed=passed,
        instructions=_text("--instructions", get("instructions")),
        max_items=chosen["max_items"],
        max_cost=chosen["max_cost"],
        usage_per_attempt=_most(get("usage_per_attempt") or ""),
        **{**times, "ttl": int(times["ttl"])},  # type: ignore[arg-type]
    )


def workspaces_of(flags: Mapping[str, Any], options: Options) -> Workspaces:
    """Where commands work. Raises CommandFailed: the flags contradict each other."""
    chosen = {**_DEFAULTS, **flags}
    names = ("setup", "before", "after", "teardown")
    setup, before, after, teardown = (chosen.get(name) or "" for name in names)
    hooks = Hooks(setup, before, after, teardown)
    tree, directory = chosen.get("worktree"), chosen.get("workspace")
    least = chosen.get("min_free", MIN_FREE / _GIB if tree else 0)
    check_range("--min-free", least, 0, 1 << 30)
    if tree and directory:
        raise CommandFailed("--worktree and --workspace exclude each other", Exit.USAGE)
    if tree:
        return Worktrees(
            Path(tree).absolute(),
            options.state,
            environment_of(options.environment, "fleet", options.passed),
            base=chosen.get("base") or "",
            fresh=bool(chosen.get("fresh")),
            salvage=bool(chosen.get("salvage")),
            hooks=hooks,
            min_free=int(least * _GIB),
            disposable=chosen.get("disposable", ()),
        )
    if wrong := next((name for name in ("base", "fresh", "salvage", "disposable") if chosen.get(name)), None):
        raise CommandFailed(f"--{wrong} needs --worktree", Exit.USAGE)
    own = options.state, *(options.state / name for name in PLACES_OF_STATE), *metrics_directories(options.state)
    return Directories(directory or ".", hooks, int(least * _GIB), own)


def seconds_of(flag: str, text: str) -> float:
    """The seconds of a duration such as 90, 15m or 2h. Raises CommandFailed: it is none."""
    try:
        seconds = milliseconds(text, alone=True) / 1_000
    except ValueError as error:
        raise CommandFailed(f"{flag}: {error}", Exit.USAGE) from None
    if seconds > 365 * SECONDS["d"]:
        raise CommandFailed(f"{flag}: must be at most 365d, not {text}", Exit.USAGE)
    return seconds


def state_of(text: Text) -> Path:
    """The directory for logs and worktrees."""
    return (Path(text) if text else platformdirs.user_state_path("fleet-run")).absolute()


def _most(text: str) -> Most:
    try:
        limits = budget(text) if text else {}
    except ValueError as error:
        raise CommandFailed(f"--usage-per-attempt: {error}", Exit.USAGE) from None
    if "wallMs" in limits:
        raise CommandFailed("--usage-per-attempt: has cost and tokens; time is that of the attempt", Exit.USAGE)
    return Most(limits.get("costMicroUsd", COUNTED.cost_micro_usd), limits.get("tokens", COUNTED.tokens))


def _words(flag: str, text: Text) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise CommandFailed(f"{flag}: {error}", Exit.USAGE) from None


def _text(flag: str, path: Text) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandFailed(f"{flag} {path} cannot be read: {why}", Exit.USAGE) from None
