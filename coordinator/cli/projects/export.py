"""``fleet export``: writes the items of a project for other programs."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from coordinator.cli.connection import HERE, Connection
from coordinator.interchange.exporting import read_project
from coordinator.interchange.formats import beads, markdown
from coordinator.wording import counted, printable

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_PATIENCE_SECONDS = 60.0
_MODULES = {"beads": beads, "markdown": markdown}


def export(
    *,
    format: Annotated[Literal["fleet", "beads", "markdown"], Parameter(help="What to write.")],
    source: Annotated[
        str | None, Parameter(help="The source of imports whose ids are written. Default: the format.")
    ] = None,
    redis_url: Annotated[
        str | None, Parameter(help="Of fleet: its Redis. Default: that of the fleet on the data directory.")
    ] = None,
    at: Connection = HERE,
) -> None:
    if format == "fleet":
        # Here, because it imports the store and the toolset, which other formats do not need.
        from coordinator.cli.projects.operating import export_project

        asyncio.run(export_project(at, redis_url))
        return
    records = at.run(lambda fleet: read_project(fleet, source or format), patience=_PATIENCE_SECONDS)
    clean = printable if sys.stdout.isatty() else _plain
    for line in _MODULES[format].write(records):
        print(clean(line))
    if format == "markdown" and (left := sum(1 for record in records if record.notes or record.related)):
        remark = "a list of tasks has no notes, nor links that hold nothing back: left out are those of"
        print(f"fleet: {remark} {counted(left, 'item')}", file=sys.stderr)


def _plain(line: str) -> str:
    """A line without control characters, which no text needs; a file may end at a terminal all the same."""
    return _CONTROLS.sub("\ufffd", line)
