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
    found = with_store(loaded, read_processes).uses({name: one.kind for name, one in stated.items()})
    for one in found:
        if format == "json":
            print_json(_shown(one), indent=-1)
        else:
            print("  ".join(_line(one)))
    return Exit.FAILED if any(one.state == "failing" or one.unset for one in found) else Exit.OK


def _shown(one: ConnectionState) -> dict[str, Any]:
    times = {"since": iso(one.since), "at": iso(one.at)} if one.worker else {"since": None, "at": None}
    return {**one._asdict(), **times}


def _line(one: ConnectionState) -> list[str]:
    words = [one.name, one.kind, one.state]
    if one.worker:
        words += [f"since {moment(one.since)}", f"last used {moment(one.at)}", f"by {one.worker}"]
    if one.reason:
        words.append(printable(one.reason))
    return [*words, *one.lacking]
