"""``fleet flows tools``: lists the tools that steps of workflows can call."""

from __future__ import annotations

import asyncio
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import print_json
from coordinator.metrics import logs
from coordinator.processes.step_tools import listed_step_tools
from coordinator.settings import LoadedSettings
from coordinator.wording import printable

if TYPE_CHECKING:
    from coordinator.processes.step_tools import Listing

_LONGEST = 90
_WIDEST = 60


@with_settings(only=())
def tools(
    loaded: LoadedSettings,
    *,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print the list.")] = "text",
) -> int:
    # Problems with connections are part of the list, so they are not logged.
    logs.configure("critical", loaded.settings.log_format)
    listings = asyncio.run(listed_step_tools(loaded.settings))
    if format == "json":
        report = [
            {
                "source": listing.source,
                **({"problem": listing.problem} if listing.problem else {}),
                "tools": [_described(tool) for tool in listing.tools],
            }
            for listing in listings
        ]
        print_json(report)
    else:
        for listing in listings:
            _print(listing)
    return Exit.FAILED if any(listing.problem for listing in listings) else Exit.OK


def _described(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "group": tool.group, "readOnly": tool.read_only}


def _print(listing: Listing) -> None:
    print(f"{listing.source}:" if not listing.problem else printable(f"{listing.source}: {listing.problem}"))
    width = min(max((len(tool.name) for tool in listing.tools), default=0), _WIDEST)
    for tool in listing.tools:
        about = " ".join(tool.description.split()).partition(". ")[0].rstrip(".")
        print(printable(f"  {tool.name:{width}}  {shorten(about, _LONGEST, placeholder=' ...')}".rstrip()))
