"""``fleet status``: what runs on a data directory, and whether it is well."""

from __future__ import annotations

import asyncio
import json as json_
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import msgspec
from cyclopts import Parameter

from coordinator import __version__
from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import print_as
from coordinator.metrics import slot_is_free
from coordinator.metrics.slots import owned
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, in_use, left_over, read_fleet, supervisor_of
from coordinator.processes.stores import open_store, running_url
from coordinator.processes.supervision.running import metrics_dir
from coordinator.settings import TOKEN_VARIABLE, LoadedSettings, Settings, redacted
from coordinator.wording import printable

_TIMEOUT_SECONDS = 5.0
_ROLES = {"frontend": "front-end"}

State = Literal["running", "starting", "stopping", "killed", "none"]


class Status(msgspec.Struct, kw_only=True):
    """What ``--json`` prints."""

    state: State
    well: bool
    """Whether it runs, and nothing is wrong with it."""
    data_dir: str
    fleet: Fleet | None = None
    """What it says about itself."""
    ready: bool = False
    """Whether it answers that it can serve."""
    store: str = ""
    """Name and version of the server; empty: it does not answer."""
    problems: list[str] = []
    others: list[str] = []
    """Processes of this directory's host that belong to no fleet there: those of ``fleet serve`` and ``worker``."""


@with_settings(only=("data_dir",))
def status(loaded: LoadedSettings, *, json: Annotated[bool, Parameter(help="Print as JSON.")] = False) -> int:
    report = _look(loaded.settings)
    print_as(report, map(printable, _lines(report)), json)
    if report.well:
        return Exit.OK
    return Exit.FAILED if report.state in ("running", "starting", "stopping") else Exit.STORE_UNREACHABLE


def _look(settings: Settings) -> Status:
    data_dir = Path(settings.data_dir)
    report = Status(state="none", well=False, data_dir=str(data_dir))
    directory = metrics_dir(settings)
    if not in_use(data_dir):
        report.fleet = left_over(data_dir)
        if report.fleet is not None:
            report.state = "killed"
            left = [process for process in report.fleet.processes if not slot_is_free(directory, process.slot)]
            report.problems = [f"{process.slot} (process {process.pid}) still runs" for process in left]
        report.others = owned(directory)
        return report
    fleet, pid = read_fleet(data_dir), supervisor_of(data_dir)
    if fleet is None or fleet.pid != (pid or fleet.pid):
        report.state, report.problems = "starting", [f"process {pid} has not started anything yet"]
        return report
    report.fleet = fleet
    report.state = "stopping" if fleet.stopping else "running" if fleet.ready else "starting"
    report.problems = [
        f"{process.slot} is {'not ready' if process.pid else 'down, and is restarted'}"
        for process in fleet.processes
        if not process.ready
    ]
    if fleet.version != __version__:
        report.problems.append(f"it is version {fleet.version}, and this command {__version__}")
    report.ready, why = _readiness(fleet.admin_url or fleet.base_url)
    if fleet.store != redacted(settings.redis_url):  # the fleet's own Redis counts, not that of the environment
        settings = msgspec.structs.replace(settings, redis_url="")
    report.store, store_why = asyncio.run(_store(settings))
    report.problems += [*why, *store_why]
    report.well = report.state == "running" and not report.problems
    return report


def _readiness(where: str) -> tuple[bool, list[str]]:
    """Whether a front-end answers that it can serve, and what is wrong."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        answer = httpx2.get(
            f"{where}/readyz",
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return False, [f"{where} does not answer: {str(error) or type(error).__name__}"]
    if answer.status_code == 200:
        return True, []
    try:
        checks: dict[str, Any] = json_.loads(answer.text)["checks"]
        wrong = [name for name, result in checks.items() if not result["ok"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        wrong = [f"HTTP status {answer.status_code}"]
    return False, [f"{where}/readyz says that it is not ready: {', '.join(wrong)}"]


async def _store(settings: Settings) -> tuple[str, list[str]]:
    """Name and version of the store, and why it cannot be reached."""
    try:
        store = await open_store(running_url(settings), settings.redis_timeout_ms, timeout=0, partly=True)
    except ProcessProblem as failure:
        return "", [f"the store: {failure}"]
    try:
        return f"{store.server.name} {store.server.version}", []
    finally:
        await store.close()


def _lines(report: Status) -> Iterator[str]:
    fleet, at = report.fleet, report.data_dir
    if report.state == "none":
        yield f"no fleet runs on {at}"
    elif report.state == "killed" and fleet is not None:
        yield f"no fleet runs on {at}; the last one was killed (process {fleet.pid})"
    elif fleet is None:
        yield f"the fleet on {at} is starting"
    else:
        where = f"{fleet.base_url}, version {fleet.version}, since {fleet.started_at}"
        yield f"the fleet on {at} is {report.state}: {where}"
        if fleet.admin_url not in ("", fleet.base_url):
            yield f"operators' port: {fleet.admin_url}"
        rows: list[tuple[str, str, int | None, str]] = [("supervisor", "up", fleet.pid, "runs")]
        rows += [
            (_ROLES.get(one.role, one.role), one.slot, one.pid, "ready" if one.ready else "not ready")
            for one in fleet.processes
        ]
        rows.append(("store", fleet.store, fleet.store_pid, report.store or "does not answer"))
        for role, slot, pid, state in rows:
            yield f"  {role:<10}  {slot:<8}  {pid or '-':>8}  {state}"
    for problem in report.problems:
        yield f"  ! {problem}"
    if report.others:
        yield f"  without a fleet: {', '.join(report.others)}"
