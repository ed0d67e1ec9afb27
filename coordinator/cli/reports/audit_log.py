"""``fleet audit-log``: what operators have done."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter

from coordinator.cli.checks import check_project_name, check_range
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, with_store
from coordinator.cli.terminal import print_json
from coordinator.operations import ActRecord, AuditLog
from coordinator.operations.log import KEPT
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.toolsets.timestamp import iso
from coordinator.wording import moment, printable


@with_settings(only=STORE_SETTINGS)
def tail(
    loaded: LoadedSettings,
    *,
    count: Annotated[int, Parameter(name=("--count", "-n"), help="At most so many. [1 to 10000]")] = 20,
    follow: Annotated[bool, Parameter(help="Go on with what comes, until interrupted.")] = False,
    project: Annotated[str | None, Parameter(help="Only what is about this project.")] = None,
    json: Annotated[bool, Parameter(help="Print one JSON object a line.")] = False,
) -> None:
    check_range("--count", count, 1, KEPT)
    if project is not None:
        check_project_name(project)

    async def show(store: Store) -> None:
        log = AuditLog(store)
        last = await log.last(count, project or "")
        for act in last:
            _print(act, json)
        if follow:
            async for act in log.follow(last[-1].entry if last else "0-0", project or ""):
                _print(act, json)
                sys.stdout.flush()

    with_store(loaded, show)


def _print(act: ActRecord, as_json: bool) -> None:
    if as_json:
        record = {**msgspec.structs.asdict(act), "at": iso(act.at)}
        del record["entry"], record["request"]
        print_json(record, indent=-1)
        return
    words = [moment(act.at), f"{act.outcome:7}", act.who.id, act.action, f"{act.target.type} {act.target.id}".strip()]
    words += [f"project {act.project}"] if act.project else []
    words += [f"because {act.reason}"] if act.reason else []
    print(printable("  ".join([*words, act.detail]).rstrip()))
