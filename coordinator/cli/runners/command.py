"""``fleet run``: runs a command for each work item."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from coordinator.cli.checks import base_urls, check_project_name
from coordinator.cli.commands import COMMANDS
from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import CommandFailed, Exit, UnknownOption
from coordinator.cli.refusals import as_typed
from coordinator.cli.runners.flags import How, Items, Limits, Where, given, options_of, workspaces_of
from coordinator.client import Denied, Fleet, FleetError, Invalid, NotFound, Observer, Unavailable
from coordinator.client.retries import Retryable
from coordinator.runner.commands import CannotStart
from coordinator.runner.loop import Runner
from coordinator.runner.masking import Masker, secrets_of
from coordinator.runner.options import Options
from coordinator.runner.protocols import WorkspaceFailed, Workspaces
from coordinator.runner.recording import CannotRecord, Page, measured
from coordinator.runner.records import NoRoom
from coordinator.runner.supervision import strays
from coordinator.settings import URL_VARIABLE
from coordinator.wording import printable

_ITEMS, _LIMITS, _HOW, _WHERE = Items(), Limits(), How(), Where()
_WORTH_TELLING = 3
"""So many failures in a row are more than a front-end that was restarted."""
MOMENT_SECONDS = 2.0
"""How long a runner that is to end at once may give back what it has claimed, when its commands are killed."""
_FLAG = re.compile(r"--([a-z-]+)")
_OF_CONNECTION = ("url", "project", "token_file")


def run(
    *command: Annotated[str, Parameter(help="The command with its arguments, after --.", allow_leading_hyphen=True)],
    runner: Annotated[
        str | None, Parameter(help="Take flags and command from this entry of the setting runners.")
    ] = None,
    config: Annotated[Path | None, Parameter(show=False, help="Its file. [env: FLEET_CONFIG]")] = None,
    items: Items = _ITEMS,
    limits: Limits = _LIMITS,
    how: How = _HOW,
    where: Where = _WHERE,
    at: Connection = HERE,
) -> int:
    if command and command[0].startswith("-"):
        raise UnknownOption(command[0])
    flags: dict[str, Any] = {}
    chosen = given(items, limits, how, where)
    typed = {*chosen, *(["command"] if command or how.preset else [])}
    written: set[str] = set()
    if runner is not None:
        flags = _entry(runner, config)
        written = {*flags, "command"} - typed - ({"token_file"} if at.token_file else set())
        command = command or flags.pop("command", ())
        here = {name: flags.pop(name) for name in _OF_CONNECTION if name in flags}
        if "url" in here:
            here["url"] = tuple(base_urls(here["url"], f"runners.{runner}.url"))
            if at.data_dir or os.environ.get(URL_VARIABLE):
                del here["url"]
        if "project" in here:
            check_project_name(here["project"], f"runners.{runner}.project")
        default = {name: value for name, value in here.items() if getattr(at, name) == getattr(HERE, name)}
        at = replace(at, **default | ({"token_file": Path(default["token_file"])} if "token_file" in default else {}))
    flags |= chosen
    try:
        options = options_of(tuple(command), flags)
        workspaces = workspaces_of(flags, options)
        with measured(options.state, _page(flags, runner), at.metrics_here()):
            return asyncio.run(_run(at, options, workspaces))
    except CannotStart as error:
        raise CommandFailed(_as_written(f"{error}", f"{runner}", written), Exit.USAGE) from None
    except CannotRecord as error:
        raise CommandFailed(_as_written(f"{error}", f"{runner}", written), Exit[error.kind.upper()]) from None
    except CommandFailed as error:
        raise CommandFailed(_as_written(f"{error}", f"{runner}", written), error.code) from None


def _page(flags: Mapping[str, Any], runner: str | None) -> Page | None:
    """The page that the runner serves of itself; None: none."""
    target = flags.get("metrics_target")
    address = flags.get("metrics", "0" if target else None)
    return None if address is None else Page(address, Path(target) if target else None, runner or "")


def _as_written(message: str, runner: str, written: Collection[str]) -> str:
    """A message that names an option, with the entry of ``runners`` in place of its flag if it was written there."""
    flag = _FLAG.match(message)
    if flag is None:
        return f"runner {runner}: {message}" if "command" in written and message.startswith("the command ") else message
    name = flag[1].replace("-", "_")
    return f"runners.{runner}.{name}{message[flag.end() :]}" if name in written else message


def _entry(name: str, config: Path | None) -> dict[str, Any]:
    from coordinator.settings import load_settings
    from coordinator.settings.problems import unknown

    entries = load_settings({}, os.environ, config).settings.runners or {}
    if name not in entries:
        raise CommandFailed(unknown("runner", name, entries), Exit.USAGE)
    return {key: value for key, value in msgspec.structs.asdict(entries[name]).items() if value not in (None, ())}


async def _run(at: Connection, options: Options, workspaces: Workspaces) -> int:
    strays.adopt()
    loop = asyncio.get_running_loop()
    async with _fleet(at, options.slots) as fleet:
        runner = Runner(fleet, options, workspaces, say)
        stops = Stops(runner)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                loop.add_signal_handler(number, stops.take, number)
        agent = fleet.agent if options.slots == 1 else f"{fleet.agent} with {options.slots} slots"
        command = Masker(secrets_of(options.environment)).text(" ".join(options.command))
        say(f"works as {agent} for {fleet.url}, project {fleet.project}: {command}")
        if options.yolo:
            say(f"--yolo: the agent may do everything without asking ({' '.join(options.preset.yolo)})")
        try:
            await runner.run()
        except (NoRoom, WorkspaceFailed) as error:
            raise CommandFailed(f"{error}") from None
        except (Denied, Invalid, NotFound) as error:
            raise CommandFailed(as_typed(error.message), Exit.USAGE) from None
        except Unavailable as error:
            raise CommandFailed(error.message, Exit.STORE_UNREACHABLE) from None
        except FleetError as error:
            raise CommandFailed(error.message) from None
    if runner.broken and not stops.code:
        raise CommandFailed(runner.broken)
    return stops.code


class Stops:
    """What signals do: the first one ends the runner when its commands have ended, the second one at once."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._signals = 0
        self.code = 0
        """The exit code that the signals make: 0 after one, that of shells after more."""

    def take(self, number: int) -> None:
        self._signals += 1
        if self._signals <= 2:
            self._runner.stop()
        if self._signals == 2:
            self.code = 128 + number
            asyncio.get_running_loop().call_later(MOMENT_SECONDS, self._leave)
        elif self._signals > 2:
            self._leave()

    def _leave(self) -> None:
        say("ended at once: what is still claimed is offered when its claim is over")
        strays.kill_children()
        os._exit(self.code)


def _fleet(at: Connection, slots: int) -> Fleet:
    check_project_name(at.project)
    return Fleet(at.base_url(), at.token() or "", at.project, at.agent, slots, kind="external", observer=_Watcher())


class _Watcher(Observer):
    """Tells when the fleet does not answer, and when it does again."""

    def __init__(self) -> None:
        self._failures = 0

    def answered(self, tool: str, seconds: float) -> None:
        if self._failures >= _WORTH_TELLING:
            say("the fleet answers again")
        self._failures = 0

    def retried(self, failure: Retryable) -> None:
        self._failures += 1
        if self._failures == _WORTH_TELLING:
            say(f"the fleet does not answer; it is asked again until it does: {failure}")


def say(line: str) -> None:
    """Prints a line of progress. If nobody reads them any more, the runner goes on without."""
    with contextlib.suppress(OSError):
        print(time.strftime("%H:%M:%S"), printable(line), flush=True)


app = App(name="run", help_format="plaintext", **COMMANDS["run"].page)
app.default(run)
app.command("coordinator.cli.runners.gc:gc", name="gc", **COMMANDS["run gc"].page)
