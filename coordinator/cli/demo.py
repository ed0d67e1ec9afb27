"""The ``demo`` command: its flags, what they may be, and how it ends."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from cyclopts import Parameter

from coordinator.cli.checks import check_base_url, check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import say
from coordinator.demo import source
from coordinator.demo.agents import Options
from coordinator.demo.report import text
from coordinator.demo.run import run
from coordinator.errors import ToolFailure
from coordinator.settings import LoadedSettings
from coordinator.store.keys import check_project

T = TypeVar("T")
MAX_AGENTS = 2000
MAX_TREES = 100
_CHAOS_FRONTENDS = 4


@with_settings(only=("data_dir", "redis_url", "frontends"), starts_store=True)
def demo(
    loaded: LoadedSettings,
    *,
    agents: Annotated[int, Parameter(help=f"MCP clients, each an agent of its own. [1 to {MAX_AGENTS}]")] = 50,
    source_: Annotated[
        str,
        Parameter(
            name="--from",
            help="What to work on: 'installed' (the dependency graph of the Python distributions here), or the file of "
            "a plan, in YAML or as a Markdown task list.",
        ),
    ] = "installed",
    trees: Annotated[int, Parameter(help=f"Copies of the tree of work, for longer runs. [1 to {MAX_TREES}]")] = 1,
    url: Annotated[str | None, Parameter(help="Base URL of the fleet. Default: that of the data directory.")] = None,
    project: Annotated[
        str | None,
        Parameter(help="A new project to work in, which is kept. Default: one that is removed at the end."),
    ] = None,
    crash_rate: Annotated[
        float, Parameter(help="Share of claims in the middle of which the agent crashes. [0 to 0.5]")
    ] = 0.05,
    work_ms: Annotated[float, Parameter(help="Simulated work on an item, in milliseconds. [0 to 60000]")] = 5.0,
    ttl: Annotated[
        int | None,
        Parameter(help="How long claims last, in seconds. Default: 2, and one more for every 200 agents. [1 to 86400]"),
    ] = None,
    seed: Annotated[int | None, Parameter(help="What the agents' choices follow from; random if not given.")] = None,
    chaos: Annotated[
        bool,
        Parameter(
            help="Kill front-ends with SIGKILL while the agents work. A fleet of the demo's own then has "
            f"{_CHAOS_FRONTENDS} of them, unless --frontends says otherwise.",
        ),
    ] = False,
    chaos_seconds: Annotated[float, Parameter(help="Time between two kills. [0.1 to 3600]")] = 2.0,
    report: Annotated[Path | None, Parameter(help="Write the report to this file as JSON.", metavar="FILE")] = None,
) -> int:
    check_range("--agents", agents, 1, MAX_AGENTS)
    check_range("--trees", trees, 1, MAX_TREES)
    check_range("--crash-rate", crash_rate, 0, 0.5)
    check_range("--work-ms", work_ms, 0, 60_000)
    ttl = 2 + agents // 200 if ttl is None else ttl
    check_range("--ttl", ttl, 1, 86_400)
    check_range("--chaos-seconds", chaos_seconds, 0.1, 3600)
    check_base_url(url)
    if project is None and loaded.settings.projects:
        raise CommandFailed("the setting projects closes the list of projects: choose one with --project", Exit.USAGE)
    if project is not None:
        try:
            check_project(project)
        except ToolFailure as failure:
            raise CommandFailed(f"--{failure.message}", Exit.USAGE) from None
    found = source.installed() if source_ == "installed" else source.from_file(source_)
    if report is not None:
        _write(report, b"", Exit.USAGE)
    for note in found.notes:
        say(f"note: {note}")
    options = Options(
        source=found,
        agents=agents,
        trees=trees,
        url=url,
        project=project,
        crash_rate=crash_rate,
        work_ms=work_ms,
        ttl=ttl,
        seed=str(secrets.randbelow(1_000_000) if seed is None else seed),
        chaos_seconds=chaos_seconds if chaos else None,
    )
    settings = loaded.settings
    if chaos and loaded.sources["frontends"] == "default":
        # A front-end needs a while to start: with two there would be times without any.
        settings = msgspec.structs.replace(settings, frontends=_CHAOS_FRONTENDS)
    try:
        result = asyncio.run(_until_told(run(options, settings, say)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        # Everything that was started has been stopped by now.
        raise CommandFailed("interrupted", Exit.FAILED) from None
    say("")
    for line in text(result):
        say(line)
    if report is not None:
        _write(report, msgspec.json.format(msgspec.json.encode(result)) + b"\n", Exit.FAILED)
    return Exit.OK if result["ok"] else Exit.FAILED


async def _until_told(work: Coroutine[None, None, T]) -> T:
    """The work's result; SIGTERM and the end of the terminal cancel it, as SIGINT does anyway."""
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, which ignores SIGHUP, the work goes on.
        if task is not None and signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await work


def _write(report: Path, content: bytes, failed: Exit) -> None:
    try:
        report.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"--report {report}: {error.strerror}", failed) from None
