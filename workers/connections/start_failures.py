"""Why a program could not be started, in words."""

from __future__ import annotations

import os


def start_problem(error: Exception, command: str, directory: str | None) -> str:
    """Why a program could not be started.

    Args:
        command: the program.
        directory: where it was to be started; None: where this process works.
    """
    if directory and not os.path.isdir(directory):
        return f"the working directory {directory!r} is not there"
    if directory and not os.access(directory, os.X_OK):
        return f"the working directory {directory!r} may not be entered"
    if isinstance(error, FileNotFoundError):
        place = os.path.join(directory or "", command)
        if "/" in command and os.path.exists(place):
            return f"the program {command!r} is there, but not the interpreter that its first line names"
        return f"the program {command!r} is not there"
    if isinstance(error, PermissionError):
        return f"the program {command!r} may not be executed"
    said = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return f"the program {command!r} cannot be started: {said}"
