"""``fleet gateway connections``: how the connections of a fleet go."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from coordinator.cli.exits import Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, with_store
from coordinator.cli.terminal import print_json
from coordinator.settings import LoadedSettings
from coordinator.store.fleet.connection_states import ConnectionState
from coordinator.store.fleet.processes import read_processes
from coordinator.toolsets.gateway import all_connections
from coordinator.toolsets.timestamp import iso
from coordinator.wording import moment, printable


@with_settings(only=STORE_SETTINGS)
def connections(
    loaded: LoadedSettings,
    *,
    format: Annotated[
        Literal["text", "json"], Parameter(help="Shape of the output; json is one object a line.")
    ] = "text",
) -> int:
    stated = all_connections(loaded.settings.gateway, loaded.settings.connections)
    uses = with_store(loaded, read_processes).uses({name: entry.kind for name, entry in stated.items()})
    for use in uses:
        if format == "json":
            print_json(_shown(use), indent=-1)
        else:
            print("  ".join(_line(use)))
    return Exit.FAILED if any(use.state == "failing" or use.unset for use in uses) else Exit.OK


def _shown(use: ConnectionState) -> dict[str, Any]:
    times = {"since": iso(use.since), "at": iso(use.at)} if use.worker else {"since": None, "at": None}
    return {**use._asdict(), **times}


def _line(use: ConnectionState) -> list[str]:
    words = [use.name, use.kind, use.state]
    if use.worker:
        words += [f"since {moment(use.since)}", f"last used {moment(use.at)}", f"by {use.worker}"]
    if use.reason:
        words.append(printable(use.reason))
    return [*words, *use.lacking]
