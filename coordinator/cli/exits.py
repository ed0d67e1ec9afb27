"""The exit codes of ``fleet``, and the exception that ends a command with a message and an exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """The command ran and failed, or met a defect."""
    USAGE = 2
    """Unknown command, flag or setting, or a value that is not allowed."""
    PORT_BUSY = 3
    """Another process listens on the port."""
    DATA_DIR = 4
    """The data directory is used by another fleet, or cannot be written."""
    STORE_TOO_OLD = 5
    """The Redis server is older than what is supported."""
    STORE_UNREACHABLE = 6
    """The Redis server does not answer, or refuses the credentials."""
    NO_EMBEDDED_STORE = 7
    """No server binary was found to run as the embedded Redis, or it did not start."""
    INTERRUPTED = 130
    """Ctrl-C, before there was anything to finish; the code that shells use."""


class CommandFailed(Exception):
    """Ends a command with one sentence on stderr.

    Args:
        message: a full sentence for the person at the terminal: what failed, and what to
            do about it. Never holds secrets.
        code: the exit code.
    """

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UnknownOption(CommandFailed):
    """A command took an option that it does not have for something else. The frame adds which options it has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown option {name!r}", Exit.USAGE)
        self.name = name
