"""What is wrong with a command line, in one sentence that names what is allowed: the parser's errors in our words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import get_args

from cyclopts import (
    App,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.argument import Argument

from coordinator.settings.problems import short, unknown

_RANGE = re.compile(r"\[([\d.]+ to [\d.]+)\]")
"""How help texts state the range of a number."""
_NUMBERS = {int: "a whole number", float: "a number"}


def sentence(error: CycloptsError, app: App) -> str:
    """Says what was typed wrongly, and what is allowed there; ``app`` is the whole command line."""
    match error:
        case UnknownCommandError():
            # The parser's own message would import every command.
            typed, part = (error.unused_tokens or ["?"])[0], error.app or app
            if typed.startswith("-"):
                return unknown("option", typed, [name for name in part if name.startswith("--")])
            return unknown("command", typed, _commands(part))
        case UnknownOptionError():
            return _option(error.token.keyword or error.token.value, error.argument_collection)
        case UnusedCliTokensError():
            return _unused(error, app)
        case MissingArgumentError(argument=Argument() as argument):
            flags = [token for token in error.unused_tokens or () if token.startswith("--")]
            if error.keyword is None and flags:
                return unknown_option(flags[0], app, error.command_chain or ())
            return _missing(argument, error.keyword)
        case CoercionError(argument=Argument() as argument):
            return _value(argument, error.token.value if error.token else "") or str(error)
    return str(error)


def unknown_option(name: str, app: App, arguments: Sequence[str]) -> str:
    """The same for an option that a command took for something else, as for the name of a program."""
    _, apps, _ = app.parse_commands(list(arguments))
    return _option(name, apps[-1].assemble_argument_collection())


def _option(name: str, known: ArgumentCollection) -> str:
    name = name.partition("=")[0]
    if name in ("--url", "--token-file") and any("--redis-url" in argument.names for argument in known):
        return f"unknown option {name!r}: this works on the store of a fleet; give --redis-url or --data-dir"
    every = {flag.lstrip("-"): flag for flag_ in known if flag_.parse for flag in flag_.names if flag.startswith("--")}
    # Without the dashes, in which all are alike.
    close = get_close_matches(name.lstrip("-"), every, n=1, cutoff=0.6)
    listed = sorted(flag_.names[0] for flag_ in known if flag_.parse and flag_.show and flag_.names[0].startswith("--"))
    hint = f"did you mean {every[close[0]]!r}?" if close else f"known: {', '.join([*listed, '--help'])}"
    return f"unknown option {short(name)!r}; {hint}"


def _unused(error: UnusedCliTokensError, app: App) -> str:
    surplus, chain = (error.unused_tokens or ["?"])[0], error.command_chain or ()
    _, apps, _ = app.parse_commands(list(chain))
    if names := _commands(apps[-1]):
        return unknown("command", surplus, names)
    takes = [_label(each) for each in apps[-1].assemble_argument_collection() if each.show and _positional(each)]
    only = " ".join(["only", *takes]) if takes else "no arguments"
    return f"{short(surplus)!r} is too much: `fleet {' '.join(chain)}` takes {only}"


def _commands(app: App) -> list[str]:
    return [name for name in app if not name.startswith("-")]


def _positional(argument: Argument) -> bool:
    return argument.index is not None


def _label(argument: Argument) -> str:
    """What the help page calls it."""
    return argument.name.lstrip("-").replace("-", "_").upper() if _positional(argument) else argument.name


def _missing(argument: Argument, keyword: str | None) -> str:
    said = f"{keyword} needs a value" if keyword else f"{_label(argument)} is required"
    if choices := argument.get_choices():
        return f"{said}; allowed: {', '.join(choices)}"
    return f"{said}: {help_text}" if (help_text := (argument.parameter.help or "").rstrip(".")) else said


def _value(argument: Argument, value: str) -> str | None:
    if choices := argument.get_choices():
        allowed = f"one of {', '.join(choices)}"
    elif bool in (kinds := (argument.hint, *get_args(argument.hint))):
        return f"{argument.name} takes no value"
    elif number := next((kind for kind in _NUMBERS if kind in kinds), None):
        limits = _RANGE.search(argument.parameter.help or "")
        allowed = _NUMBERS[number] + (f" from {limits[1]}" if limits else "")
    else:
        return None
    return f"{_label(argument)} must be {allowed}, not {short(value)!r}"
