"""Options that say which fleet a command is about, typed before the command: ``fleet --url URL items list``."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.cli.commands import COMMANDS, GROUPS
from coordinator.cli.exits import CommandFailed, Exit

OPTIONS = ("--url", "--token-file", "--project", "--agent", "--data-dir", "--redis-url", "--config")
"""Each takes a value. Whether a command has the option, its parser decides."""


def behind_the_command(arguments: Sequence[str]) -> list[str]:
    """The command line with such options behind the words of the command, where the parser expects them.

    Raises:
        CommandFailed: there is no command.
    """
    left, words, moved = list(arguments), list[str](), list[str]()
    while left:
        if left[0].partition("=")[0] in OPTIONS:
            size = 1 if "=" in left[0] else 2
            moved += left[:size]
            del left[:size]
        elif " ".join((*words, left[0])) in COMMANDS | GROUPS:
            words.append(left.pop(0))
        else:
            break
    if moved and not words and not left:
        raise CommandFailed(f"{moved[0]} goes with a command; `fleet --help` lists them", Exit.USAGE)
    return [*words, *moved, *left] if words else [*left, *moved]
