"""``fleet project list``: the projects of the store."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, with_store
from coordinator.cli.terminal import aligned, print_as
from coordinator.projects.counting import Counted, count
from coordinator.settings import LoadedSettings
from coordinator.toolsets.timestamp import iso
from coordinator.units import size
from coordinator.wording import moment

_HEAD = ("PROJECT", "KEYS", "SIZE", "SHARD", "CHANGED", "")


@with_settings(only=STORE_SETTINGS)
def list_(loaded: LoadedSettings, *, json: Annotated[bool, Parameter(help="Print JSON.")] = False) -> int:
    counts = with_store(loaded, count)
    report = {"projects": [_as_json(row) for row in counts.rows], "unseen": counts.unseen}
    print_as(report, aligned([_HEAD, *map(_cells, counts.rows)], right=range(1, len(_HEAD) - 1)), json)
    for name in counts.unseen if not json else ():
        print(f"not seen: {name}", file=sys.stderr)
    return Exit.STORE_UNREACHABLE if counts.unseen else Exit.OK


def _cells(row: Counted) -> tuple[str, ...]:
    number = "?" if row.keys is None else str(row.keys)
    changed = "-" if row.changed_ms is None else moment(row.changed_ms)
    return (
        row.project,
        number,
        "?" if row.bytes is None else size(row.bytes),
        "?" if row.shard < 0 else str(row.shard),
        changed,
        row.fence,
    )


def _as_json(row: Counted) -> dict[str, object]:
    return {
        "project": row.project,
        "shard": row.shard if row.shard >= 0 else None,
        "keys": row.keys,
        "bytes": row.bytes,
        "changedAt": None if row.changed_ms is None else iso(row.changed_ms),
        "refused": row.fence or None,
    }
