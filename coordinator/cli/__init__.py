"""The ``fleet`` command.

Commands are registered by import string (``commands``), so that a command loads only what it uses. A command returns
Commands are registered by import string (``commands``), so that a command loads only what it uses. A command returns
its exit code (``exits.Exit``), or None if all went well, or raises ``CommandFailed``, ``ProcessProblem`` or
``SettingsError``, which becomes one sentence on stderr. Stack traces are shown only if FLEET_LOG_LEVEL is ``debug``.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from coordinator import __version__
from coordinator.cli import refusals, wrong_usage
from coordinator.cli.commands import COMMANDS, GROUPS
from coordinator.cli.exits import CommandFailed, Exit, UnknownOption
from coordinator.cli.leading import behind_the_command
from coordinator.cli.terminal import absent
from coordinator.metrics import logs
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.supervision.init import run_below
from coordinator.settings import SettingsError
from coordinator.wording import printable

MOST_FILES = 65_536
_NO_ROOM = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC)


def _app() -> App:
    groups: dict[str, App] = {}
    for words, group in GROUPS.items():
        parent, _, name = words.rpartition(" ")
        if not words:
            groups[words] = App(
                name="fleet",
                version=__version__,
                help_format="plaintext",
                result_action="return_value",
                exit_on_error=False,
                print_error=False,
                **group.page,
            )
        else:
            groups[words] = App(name=name, **group.page)
            groups[parent].command(groups[words])
    for words, command in COMMANDS.items():
        parent, _, name = words.rpartition(" ")
        if parent not in groups:  # it is registered by the command that it belongs to
            continue
        page = command.page if not command.target.endswith(":app") else {"help": command.page["help"]}
        groups[parent].command(command.target, name=name, **page)
    return groups[""]


app = _app()


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; failures are printed on stderr."""
    refusals.typed = arguments
    try:
        result = app(behind_the_command(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(wrong_usage.sentence(error, app), Exit.USAGE)
    except UnknownOption as error:
        return _fail(wrong_usage.unknown_option(error.name, app, arguments), Exit.USAGE)
    except SettingsError as error:
        return _fail(str(error), Exit.USAGE)
    except CommandFailed as error:
        return _fail(str(error), error.code)
    except ProcessProblem as error:
        return _fail(str(error), Exit[error.kind.upper()])
    except BrokenPipeError:
        # The reader of our output (head, less) has exited, which is not a failure.
        _drop_output()
        return Exit.OK
    except Exception as error:
        if os.environ.get("FLEET_LOG_LEVEL") == "debug":
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _drop_output()
            return _fail(f"cannot write {error.filename or 'the output'}: {error.strerror}", Exit.FAILED)
        return _fail(
            f"a defect of fleet: {type(error).__name__}: {error} (FLEET_LOG_LEVEL=debug shows where)", Exit.FAILED
        )
    return result if isinstance(result, int) else Exit.OK


def main() -> None:
    """Runs the command that this process was started with, and exits."""
    run_below()
    _raise_file_limit()
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(OSError):  # a pipe has taken the place of a file since it was opened
            sys.stdout.reconfigure(errors="replace")  # texts that the terminal's encoding does not have
    # Processes of a fleet configure this again. Logs of other commands must not mix with their output.
    logs.configure("info", "auto")
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # The command does not handle the signal (yet), so there is nothing to finish.
        sys.exit(Exit.INTERRUPTED)


def _raise_file_limit() -> None:
    """Raises the soft limit of open files to the hard one, at most to ``MOST_FILES``; children inherit it.

    Each connection is a file. The usual soft limit (1,024) is for programs that use ``select``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS has a further limit that getrlimit does not report.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_closed() -> None:
    """Opens closed standard streams on the null device.

    Otherwise the next file or socket would get descriptor 0, 1 or 2, and everything that is written there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            absent.add(name)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, open(nowhere, mode, encoding="utf-8"))  # noqa: SIM115 (kept open)


def _drop_output() -> None:
    """Drops the rest of the stdout buffer, so that it is not flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: Exit) -> int:
    # The message may quote a server, so it may hold control characters.
    print("\n".join(map(printable, f"fleet: {message}".split("\n"))), file=sys.stderr)
    return code
