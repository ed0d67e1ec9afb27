"""``fleet gateway tools``: the tools that the gateway imports, and those that it leaves out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, with_store
from coordinator.cli.terminal import print_json
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.toolsets.gateway import Catalogue, Servers, ServerStore
from coordinator.wording import printable

_WIDEST = 60


@with_settings(only=STORE_SETTINGS)
def tools(
    loaded: LoadedSettings,
    *,
    left_out: Annotated[bool, Parameter(help="Those that are not offered, and why.")] = False,
    json: Annotated[bool, Parameter(help="Print a list of objects.")] = False,
) -> None:
    async def read(store: Store) -> Servers:
        return await ServerStore(store).read()

    settings = loaded.settings
    if settings.gateway is None or not settings.gateway.proxy.imports:
        print("fleet: the settings import no tools; is --config that of the fleet?", file=sys.stderr)
        rows = []
    else:
        catalogue = Catalogue(settings.gateway, settings.connections, with_store(loaded, read))
        rows = list(_left_out(catalogue) if left_out else _offered(catalogue))
    if json:
        print_json(rows)
    elif rows:
        head = {key: key for key in rows[0]}
        widths = [min(max(len(printable(row[key])) for row in (head, *rows)), _WIDEST) for key in head]
        for row in (head, *rows):
            cells = (printable(cell).ljust(width) for cell, width in zip(row.values(), widths, strict=True))
            print("  ".join(cells).rstrip())


def _offered(catalogue: Catalogue) -> Iterator[dict[str, Any]]:
    for name, tool in catalogue.imported.items():
        yield {"connection": tool.executor.connection, "tool": tool.executor.tool, "capability": name}


def _left_out(catalogue: Catalogue) -> Iterator[dict[str, Any]]:
    for name, tools_left in catalogue.left_out.items():
        for left in tools_left:
            yield {"connection": name, "tool": left.tool, "reason": left.reason}
        if more := catalogue.more_left_out(name):
            yield {"connection": name, "tool": "", "reason": f"and {more} more"}
