"""Checks whether the Redis is suitable for a fleet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.doctor.findings import Finding, page_of
from coordinator.store import layout
from coordinator.store.checks import key_space, permissions
from coordinator.store.embedded.binary import MINIMUM_VERSION
from coordinator.wording import counted

Info = Mapping[str, Any]

LISTPACK_BYTES = 512
_CLOCK_SECONDS = 5.0
_STEP_SECONDS = 0.5
_MEMORY_SHARE = 0.8
_SLOW_MS = 5.0


def check(
    info: Info,
    config: Info,
    latency_ms: float,
    offset_seconds: float,
    key_version: int | None = None,
    denied: Sequence[str] = (),
    refusal: str = "",
    identity: str = "",
    known: str = "",
    changed: str = "",
    moment_ms: int = 0,
    in_cluster: bool = False,
) -> Iterator[Finding]:
    """Checks a server.

    Args:
        info: the reply to INFO, all sections.
        config: the reply to CONFIG GET; empty if that is not allowed.
        latency_ms: the time of one PING.
        offset_seconds: how far the server's clock is ahead of ours.
        key_version: the key-space version in the store; None: none yet.
        denied: commands of the scripts that our user may not run.
        refusal: why the server rejects writes; empty: it accepts them.
        identity: the store's identity; empty: it has none.
        known: the expected identity, by the settings or the data directory; empty: any.
        changed: why it is not the store that the fleet had; empty: it is, or that is unknown.
        moment_ms: the latest time recorded in the store, by its clock.
        in_cluster: whether its node is checked with all others (``check_node``).
    """
    yield _identity(identity, known, changed, used=key_version is not None)
    yield _keys(key_version)
    yield _permissions(denied)
    yield _writes(refusal)
    yield _clock_rises(offset_seconds, moment_ms)
    if not in_cluster:
        yield from check_node(info, config, latency_ms, offset_seconds)
        yield _replication(info, config)


def check_node(info: Info, config: Info, latency_ms: float, offset_seconds: float) -> Iterator[Finding]:
    """Checks what has to hold of each node of a cluster, primary or replica. Arguments as those of ``check``."""
    yield _version(info)
    yield from _persistence(info, config)
    yield _eviction(info, config)
    yield _memory(info)
    yield _clock(offset_seconds)
    yield _latency(latency_ms)
    yield from _layout(config)


def _version(info: Info) -> Finding:
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info.get("redis_version"))
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if number < MINIMUM_VERSION:
        return Finding("fails", "store.version", f"{name} {version}", "Redis 7.0 or newer, or any Valkey, is needed")
    return Finding("ok", "store.version", f"{name} {version}")


def _keys(key_version: int | None) -> Finding:
    if key_version is None:
        return Finding("ok", "store.keys", "no fleet has used the store yet")
    if key_version == layout.VERSION:
        return Finding("ok", "store.keys", f"key-space version {key_version}")
    return Finding("fails", "store.keys", layout.differs(key_version), key_space.ADVICE)


def _permissions(denied: Sequence[str]) -> Finding:
    if denied:
        return Finding("fails", "store.permissions", permissions.lacking(denied), permissions.ADVICE)
    return Finding("ok", "store.permissions", "the user may run every command that the scripts use")


def _writes(refusal: str) -> Finding:
    if refusal:
        return Finding("fails", "store.writes", refusal, "the log of the server says more")
    return Finding("ok", "store.writes", "the server takes writes")


def _persistence(info: Info, config: Info) -> Iterator[Finding]:
    what = "store.persistence"
    if not int(info.get("aof_enabled", 0)):
        yield Finding(
            "fails",
            what,
            "the append-only file is off: acknowledged writes are lost with the server",
            "set appendonly yes, with appendfsync always or everysec",
        )
    else:
        fsync = str(config.get("appendfsync", "unknown"))
        if fsync == "no":
            yield Finding(
                "fails", what, "appendfsync is no: the kernel decides when to write", "set it to always or everysec"
            )
        else:
            yield Finding("ok", what, f"append-only file, appendfsync {fsync}")
        if info.get("aof_last_write_status", "ok") != "ok":
            yield Finding(
                "fails", what, "the last write to the append-only file failed", "look at the disk and the server's log"
            )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding("warns", what, "the last snapshot failed", "look at the disk and the server's log")


def _eviction(info: Info, config: Info) -> Finding:
    policy = str(config.get("maxmemory-policy") or info.get("maxmemory_policy", "unknown"))
    if policy == "noeviction":
        return Finding("ok", "store.eviction", "noeviction")
    return Finding(
        "fails",
        "store.eviction",
        f"maxmemory-policy is {policy}: keys may vanish when memory is short",
        "set it to noeviction; writes are refused then, and nothing is lost",
    )


def _memory(info: Info) -> Finding:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not most:
        return Finding("ok", "store.memory", f"{used / 2**20:.0f} MiB used, no limit")
    said = f"{used / 2**20:.0f} of {most / 2**20:.0f} MiB used"
    if used >= most:
        advice, alert = "raise maxmemory, or delete old data: reads and deletions still work", "StoreFull"
        return Finding("fails", "store.memory", f"{said}: writes are refused", advice, alert, page_of(alert))
    if used > _MEMORY_SHARE * most:
        advice, alert = "raise maxmemory, or delete old data", "StoreGrows"
        return Finding("warns", "store.memory", said, advice, alert, page_of(alert))
    return Finding("ok", "store.memory", said)


def _replication(info: Info, config: Info) -> Finding:
    if info.get("role", "master") != "master":
        return Finding("fails", "store.role", "the server is a replica", "give the URL of the primary")
    replicas = int(info.get("connected_slaves", 0))
    if replicas and config.get("min-replicas-to-write") == "0":
        return Finding(
            "warns",
            "store.role",
            f"primary with {counted(replicas, 'replica')}, which takes writes without any: a failover loses these",
            "set min-replicas-to-write 1, with min-replicas-max-lag as low as the network allows",
        )
    return Finding("ok", "store.role", f"primary with {counted(replicas, 'replica')}")


def _clock(offset: float) -> Finding:
    if abs(offset) > _CLOCK_SECONDS:
        return Finding(
            "warns",
            "store.clock",
            f"the server's clock is {offset:+.1f} s off this host's",
            "synchronise both: expiry goes by the server's, tokens and logs by this one's",
        )
    return Finding("ok", "store.clock", f"{offset:+.3f} s off this host's")


def _clock_rises(offset: float, moment_ms: int) -> Finding:
    behind = moment_ms / 1000 - (time.time() + offset)
    if behind > _STEP_SECONDS:
        return Finding(
            "fails",
            "store.clock",
            f"the server's clock has stepped back: it is {behind:.1f} s behind the latest time recorded in the store",
            "have it slewed, not stepped (chrony: makestep only at boot): until it has caught up, claims last longer, "
            "and a restored copy may grant fences again",
        )
    return Finding("ok", "store.clock", "it has not stepped back")


def _identity(identity: str, known: str, changed: str, used: bool) -> Finding:
    what = "store.identity"
    if changed:
        said, _, advice = changed.partition("; ")
        return Finding("fails", what, said, advice, "StoreChanged", page_of("StoreChanged"))
    if known:
        return Finding("ok", what, f"it is the store that the fleet has ({identity})")
    if identity:
        return Finding("ok", what, f"it is {identity}; nothing here remembers which store the fleet had")
    if used:
        said = "the store has data but no identity: processes refuse to start"
        return Finding("fails", what, said, "to serve it nevertheless: fleet store accept")
    return Finding("ok", what, "it has none: no fleet has used the store yet")


def _latency(latency_ms: float) -> Finding:
    if latency_ms > _SLOW_MS:
        return Finding(
            "warns",
            "store.latency",
            f"a PING takes {latency_ms:.1f} ms",
            "put the Redis nearer: each call is one round trip",
        )
    return Finding("ok", "store.latency", f"a PING takes {latency_ms:.2f} ms")


def _layout(config: Info) -> Iterator[Finding]:
    if not config:
        yield Finding(
            "warns", "store.config", "CONFIG GET is not allowed", "allow it to have the server's settings checked"
        )
        return
    value = int(config.get("hash-max-listpack-value") or LISTPACK_BYTES)
    if value < LISTPACK_BYTES:
        yield Finding(
            "warns",
            "store.layout",
            f"hash-max-listpack-value is {value}: an item with a long title takes up to four times the memory",
            f"set it to {LISTPACK_BYTES}",
        )
    else:
        yield Finding("ok", "store.layout", f"hash-max-listpack-value is {value}")


def clock_offset(server: tuple[int, int]) -> float:
    """How far the server's clock (seconds, microseconds) is ahead of ours, in seconds."""
    return server[0] + server[1] / 1e6 - time.time()
