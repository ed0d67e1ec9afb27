"""The ``fleet`` command.

Commands are registered by import string, so that a command loads only what it uses. A command returns its exit code
(``exits.Exit``), or raises ``CommandFailed`` or ``SettingsError``, which becomes one sentence on stderr. Stack traces
are shown only if FLEET_LOG_LEVEL is ``debug``.

``supervision`` has what keeps the processes of a fleet running.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnknownCommandError

from coordinator import __version__
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.limits import raise_file_limit
from coordinator.cli.supervision.init import run_below
from coordinator.cli.terminal import absent, printable
from coordinator.metrics import logs
from coordinator.settings import SettingsError
from coordinator.settings.problems import unknown

_NO_ROOM = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC)

COMMANDS: dict[str, tuple[str, str]] = {
    "up": (
        "coordinator.cli.up:up",
        """Run a whole fleet on this machine: Redis, front-ends and workers.

        Without --redis-url it starts a private Redis, whose data in --data-dir is kept across restarts.
        When everything answers it prints a line with 'ready' and the base URL. Ctrl-C or SIGTERM lets
        requests in flight finish, then stops everything; processes that die are restarted. SIGHUP applies
        those settings of a changed config file that need no restart.
        """,
    ),
    "serve": (
        "coordinator.cli.serve:serve",
        """Run front-end processes only, against an existing Redis.

        For deployments where something else runs the Redis and restarts processes. Start as many as the
        load needs, on any number of machines: they share nothing but the Redis.
        """,
    ),
    "worker": (
        "coordinator.cli.worker:worker",
        """Run one worker process, which executes workflow steps.

        Needs the same Redis as the front-ends. Workers can be added, stopped and killed at any time; the
        steps of a killed one run again elsewhere.
        """,
    ),
    "stdio": (
        "coordinator.cli.stdio:stdio",
        """Speak MCP on stdin and stdout, for one local agent.

        Works on the same data as the fleet of the data directory (or of --redis-url), and starts the
        embedded Redis if no fleet runs. Stdout carries nothing but the protocol; logs go to stderr.
        """,
    ),
    "tools": (
        "coordinator.cli.tools:tools",
        """Print what the tools of a toolset take and answer, on one page.

        `fleet tools items` is the reference of the work items' tools: a table of arguments, an example call
        and the shape of the answer for each, made from the contracts that the tools are served with.
        """,
    ),
    "audit": (
        "coordinator.cli.audit:audit",
        """Recount a project: do its indexes, counters and claims agree with its items?

        Changes nothing and may run while the project is in use. Reports every difference; the exit code is
        not 0 if there is one.
        """,
    ),
    "drain": (
        "coordinator.cli.drain:drain",
        """Ask the fleet, a host or one process to take no new work, and wait until work in progress is done.

        Claims, creates, searches and waiting calls are turned away with `draining`; heartbeats, releases,
        transitions and reads are answered, and workers begin no further steps. Also applies to processes that
        start later, until it is ended with --end.
        """,
    ),
    "store accept": (
        "coordinator.cli.store:accept",
        """Have the store that is there now take the place of the one that the fleet had.

        Processes refuse every call (`store_changed`) when they find another store, or an emptied one. If that is
        what you want, accept it: they serve it within a second or two, on every host. Where the embedded store
        does not run, the next `fleet up` takes the data that it finds.
        """,
    ),
    "top": (
        "coordinator.cli.top.command:top",
        """Show what the fleet does right now: calls, latencies, shedding, claims, contention, store and workers.

        Reads the metrics of the fleet of the data directory, or of --url, every few seconds until interrupted;
        --once prints one interval. Sends FLEET_TOKEN to a fleet that requires a token.
        """,
    ),
    "demo": (
        "coordinator.cli.demo.command:demo",
        """Let many MCP clients drain a real tree of work, and prove that nothing went wrong.

        Builds work items from the dependency graph of the installed Python distributions, has agents claim
        and complete them over HTTP while some of them crash, then audits the recorded history. The exit code
        is not 0 if any promise was broken. Starts a fleet of its own if none is running.
        """,
    ),
    "config show": (
        "coordinator.cli.config:show",
        """Print every setting in force and where its value came from.

        Takes the same flags, environment variables and file as the other commands, so it shows what they
        would run with. Passwords are masked.
        """,
    ),
    "config example": (
        "coordinator.cli.config:example",
        "Print a config file that states every setting with its default, unit and limits.",
    ),
    "config check": (
        "coordinator.cli.check:check",
        """List what is wrong with a config file, or explain what it means.

        All problems are reported together, each with its line, and the exit code is 2. A sound file is
        explained: which notes each schema needs in each phase, traits, status labels, and what in it is
        ignored. A running fleet applies a changed file on SIGHUP to its supervisor.
        """,
    ),
    "doctor": (
        "coordinator.cli.doctor.command:app",
        "Check everything that the fleet depends on; silent when all is well.",
    ),
    "token create": (
        "coordinator.cli.token:create",
        """Add a token to the token file, and print it.

        The token is printed this one time, alone on stdout; the file keeps only its SHA-256 digest. A running
        fleet accepts it within two seconds.
        """,
    ),
    "token list": (
        "coordinator.cli.token:show",
        "List the tokens of the token file, by their keys.",
    ),
    "token revoke": (
        "coordinator.cli.token:revoke",
        """Remove a token from the token file, by its key, or all tokens of an id.

        A running fleet refuses it within two seconds.
        """,
    ),
    "definitions check": (
        "coordinator.cli.definitions:check",
        """List what is wrong with a folder of workflow definitions.

        Reports files that cannot be used, errors of notation that were forgiven, transitions that lead
        nowhere, missing skills and activities that nothing leads to. The exit code is not 0 if anything is
        broken or wrong; what is only odd leaves it at 0.
        """,
    ),
    "flows list": (
        "coordinator.cli.flows.commands:show_list",
        "List workflows, newest first.",
    ),
    "flows show": (
        "coordinator.cli.flows.commands:show",
        "Draw a workflow's graph with the state of each step, or print it as a Mermaid flowchart.",
    ),
    "flows cancel": (
        "coordinator.cli.flows.commands:cancel",
        "Cancel a running or paused workflow and stop its steps.",
    ),
    "flows pause": (
        "coordinator.cli.flows.commands:pause",
        """Let no further step of a workflow begin until it is resumed; steps that run go on.

        What is due meanwhile, as delays, retries and expiries of gates, waits for the resume.
        """,
    ),
    "flows resume": (
        "coordinator.cli.flows.commands:resume",
        "Let a paused workflow go on.",
    ),
    "flows retry": (
        "coordinator.cli.flows.commands:retry",
        "Run the failed and cancelled steps of a workflow again; finished steps are kept.",
    ),
    "flows tools": (
        "coordinator.cli.flows.tools:tools",
        """List the tools that steps can call: the coordinator's own, Python callables, those of connections.

        Asks every connection. If one does not answer, the others are still listed and the exit code is not 0.
        """,
    ),
    "gateway check": (
        "coordinator.cli.gateway.check:check",
        """List what is wrong with the gateway in a config file, or in a file of its own.

        Reports errors with file and line: references to nothing, malformed expressions and schemas, targets
        that do not exist; and warnings: states that nothing leads to, or that lead nowhere. The exit code is
        not 0 if there are errors.
        """,
    ),
    "gateway audit": (
        "coordinator.cli.gateway.records:audit",
        "Print what happened, oldest first.",
    ),
    "gateway approvals list": (
        "coordinator.cli.gateway.records:approvals",
        "List open approvals, oldest first.",
    ),
    "gateway approvals show": (
        "coordinator.cli.gateway.records:show_approval",
        "Print an approval and its possible answers.",
    ),
    "gateway approvals resolve": (
        "coordinator.cli.gateway.records:resolve",
        """Answer an approval by taking a transition as a person.

        Needs access to the fleet's Redis, and no other permission. The answer is recorded under the user at the
        terminal, or under the name given with --by.
        """,
    ),
}
"""Words of a command -> its import string and its help. The first line of the help is shown by ``fleet --help``."""

GROUPS: dict[str, str] = {
    "config": "Show settings and where they come from; check a config file.",
    "token": "Make, list and revoke the bearer tokens of callers.",
    "store": "Accept another store, or an emptied one.",
    "definitions": "Check definitions of workflows.",
    "flows": "Show workflows and their steps; cancel them, or run them again.",
    "gateway": "Check a gateway's configuration; show its audit; answer approvals.",
    "gateway approvals": "List, show and answer approvals.",
}
"""Words that commands begin with -> the help of that group. A group comes after the group that it is in."""


def _app() -> App:
    app = App(
        name="fleet",
        help="Coordinate a fleet of AI agents: shared work items, claims and workflows over MCP, kept in Redis.",
        version=__version__,
        help_format="plaintext",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
    )
    groups = {"": app}
    for words, text in GROUPS.items():
        parent, _, name = words.rpartition(" ")
        groups[words] = App(name=name, help=text)
        groups[parent].command(groups[words])
    for words, (target, text) in COMMANDS.items():
        parent, _, name = words.rpartition(" ")
        groups[parent].command(target, name=name, help=_paragraphs(text))
    return app


def _paragraphs(text: str) -> str:
    """The text without the line breaks of this source file."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


app = _app()


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; failures are printed on stderr."""
    try:
        result = app(list(arguments))
        sys.stdout.flush()
    except UnknownCommandError as error:
        # cyclopts' own message would import every command.
        names = [name for name in error.app or app if not name.startswith("-")]
        return _fail(unknown("command", (error.unused_tokens or ["?"])[0], names), Exit.USAGE)
    except CycloptsError as error:
        return _fail(str(error), Exit.USAGE)
    except SettingsError as error:
        return _fail(str(error), Exit.USAGE)
    except CommandFailed as error:
        return _fail(str(error), error.code)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone, which is not a failure.
        _drop_output()
        return Exit.OK
    except Exception as error:
        if os.environ.get("FLEET_LOG_LEVEL") == "debug":
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _drop_output()
            return _fail(f"cannot write {error.filename or 'what it has to say'}: {error.strerror}", Exit.FAILED)
        return _fail(
            f"a defect of fleet: {type(error).__name__}: {error} (FLEET_LOG_LEVEL=debug shows where)", Exit.FAILED
        )
    return result if isinstance(result, int) else Exit.OK


def main() -> None:
    """Entry point of the ``fleet`` script."""
    run_below()
    raise_file_limit()
    _open_closed()
    # Processes of a fleet set this up again, by their settings. What other commands log must not get into their output.
    logs.configure("info", "auto")
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # The command does not handle the signal (yet), so there is nothing to finish.
        sys.exit(Exit.INTERRUPTED)


def _open_closed() -> None:
    """Opens closed standard streams on the null device.

    Otherwise the next file or socket would get the descriptor 0, 1 or 2, and so everything that is written there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            absent.add(name)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, open(nowhere, mode, encoding="utf-8"))  # noqa: SIM115 (kept open)


def _drop_output() -> None:
    """Drops what is left in the buffer of stdout, so that it is not flushed again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: Exit) -> int:
    # The message may quote a server, so it may hold control characters.
    print("\n".join(map(printable, f"fleet: {message}".split("\n"))), file=sys.stderr)
    return code
