"""The version of a server: Redis 7.0 or newer, or any Valkey, has what the scripts need."""

from __future__ import annotations

import re
from typing import NamedTuple

from coordinator.store.embedded.binary import MINIMUM_VERSION
from coordinator.store.errors import StoreTooOld

_VERSION = re.compile(r"(\d+)\.(\d+)")


class ServerInfo(NamedTuple):
    """Which server answers."""

    name: str
    """``Redis`` or ``Valkey``."""
    version: str


def supported(info: str, place: str) -> ServerInfo:
    """The server at a place, by its section ``server`` of INFO. Raises StoreTooOld."""
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    valkey = facts.get("valkey_version")
    server = ServerInfo("Valkey", valkey) if valkey else ServerInfo("Redis", facts.get("redis_version", "0.0"))
    match = _VERSION.match(server.version)
    if match is None or (int(match[1]), int(match[2])) < MINIMUM_VERSION:
        raise StoreTooOld(
            f"the server at {place} is {server.name} {server.version}: Redis 7.0 or newer, or any Valkey, is needed"
        )
    return server
