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
        for one in last:
            _print(one, json)
        if follow:
            async for one in log.follow(last[-1].entry if last else "0-0", project or ""):
                _print(one, json)
                sys.stdout.flush()

    with_store(loaded, show)


def _print(one: ActRecord, as_json: bool) -> None:
    if as_json:
        shown = {**msgspec.structs.asdict(one), "at": iso(one.at)}
        del shown["entry"], shown["request"]
        print_json(shown, indent=-1)
        return
    words = [moment(one.at), f"{one.outcome:7}", one.who.id, one.action, f"{one.target.type} {one.target.id}".strip()]
    words += [f"project {one.project}"] if one.project else []
    words += [f"because {one.reason}"] if one.reason else []
    print(printable("  ".join([*words, one.detail]).rstrip()))
