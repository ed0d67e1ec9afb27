"""``fleet flows tools``: lists the tools that steps of workflows can call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import print_json
from coordinator.metrics import logs
from coordinator.settings import LoadedSettings, Settings
from coordinator.store import Store
from coordinator.wording import printable

if TYPE_CHECKING:
    from workers.tools.registry import Listing

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
    listings = asyncio.run(_listed(loaded.settings))
    if format == "json":
        report = [
            {
                "source": one.source,
                **({"problem": one.problem} if one.problem else {}),
                "tools": [_described(tool) for tool in one.tools],
            }
            for one in listings
        ]
        print_json(report)
    else:
        for listing in listings:
            _print(listing)
    return Exit.FAILED if any(one.problem for one in listings) else Exit.OK


async def _listed(settings: Settings) -> Sequence[Listing]:
    # Imported here, because most commands do not need RQ and the MCP client.
    from workers.run_kinds import step_tools

    class _Nowhere:
        """Executes no calls."""

        async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
            raise RuntimeError("listing tools calls none")

    # This store is never opened.
    registry = step_tools(settings, Store("redis://localhost"), _Nowhere())
    try:
        return await registry.list()
    finally:
        await registry.close()


def _described(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "group": tool.group, "readOnly": tool.read_only}


def _print(listing: Listing) -> None:
    print(f"{listing.source}:" if not listing.problem else printable(f"{listing.source}: {listing.problem}"))
    width = min(max((len(tool.name) for tool in listing.tools), default=0), _WIDEST)
    for tool in listing.tools:
        about = " ".join(tool.description.split()).partition(". ")[0].rstrip(".")
        print(printable(f"  {tool.name:{width}}  {shorten(about, _LONGEST, placeholder=' ...')}".rstrip()))
