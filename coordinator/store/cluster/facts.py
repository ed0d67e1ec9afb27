"""What operators want to know of a cluster: every node is asked, and those that do not answer are named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from coordinator.store.errors import StoreUnreachable
from coordinator.store.libraries.build import Library, usual_name
from coordinator.store.link import clients
from coordinator.store.link.address import Address, Place
from coordinator.store.link.slot_map import SLOTS, slot_of, unanswered
from coordinator.store.scripts import Script

_SETTINGS = [
    "cluster-node-timeout",
    "cluster-require-full-coverage",
    "cluster-allow-reads-when-down",
    "appendonly",
    "appendfsync",
    "maxmemory-policy",
    "hash-max-listpack-value",
    "min-replicas-to-write",
]
_PINGS = 5
_AT_ONCE = 1000
"""How many slots a node counts in one go."""
_COUNT_SECONDS = 10.0
"""How long a node may take to count the keys in slots that it does not have."""


class NodeFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One node, as it says itself if it answers, else as the others say."""

    id: str
    place: str
    role: str
    """primary or replica."""
    shard: int = -1
    """The number of its shard, from 0 in the order of their first slots; -1: it has no slots."""
    away: str = ""
    """Why it does not answer; empty: it does."""
    slots: int = 0
    moving: dict[str, str] = {}
    """Slots that it is giving away or getting, as it says: slot -> ``to PLACE`` or ``from PLACE``."""
    state: str = ""
    """``cluster_state``, as it sees it."""
    version: str = ""
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    lag_bytes: int = 0
    """How much a replica is behind its primary."""
    linked: bool = True
    """Whether a replica is connected to its primary."""
    latency_ms: float = 0.0
    clock_seconds: float = 0.0
    """How far its clock is ahead of ours."""
    lacking: int = 0
    """Function libraries of this release that it lacks; they are loaded at the first call."""
    no_functions: str = ""
    """Why it refuses to list its functions; empty: it does not."""
    differs: int = 0
    """Of how many slots it says otherwise who has them than the node whose map this is."""
    stray_keys: dict[str, int] = {}
    """Keys in slots that it does not have and does not get, if they were counted: slot -> number."""
    info: dict[str, Any] = {}
    config: dict[str, str] = {}

    @property
    def at(self) -> Place:
        """Its host and port."""
        host, _, port = self.place.rpartition(":")
        return host, int(port)


class ClusterFacts(msgspec.Struct, kw_only=True):
    """A cluster, as all nodes that answer say together."""

    nodes: list[NodeFacts]
    uncovered: list[str] = []
    """Ranges of slots that no primary has."""
    strangers: list[str] = []
    """Nodes that the URL names, and that are none of this cluster."""
    owners: list[int] = []
    """The number of the shard that has each slot; -1: none has it."""

    def shard_of(self, tag: str) -> int:
        """The number of the shard with the keys of a hash tag; -1: none has it."""
        return self.owners[slot_of(tag)]

    def primary_of(self, tag: str) -> NodeFacts | None:
        """The node that has the keys of a hash tag; None: none has them."""
        shard = self.shard_of(tag)
        return next((one for one in self.primaries if one.shard == shard), None)

    @property
    def primaries(self) -> list[NodeFacts]:
        """Those with slots, in the order of their shards."""
        return sorted((node for node in self.nodes if node.slots and node.role == "primary"), key=lambda one: one.shard)

    @property
    def away(self) -> list[NodeFacts]:
        """Those that do not answer."""
        return [node for node in self.nodes if node.away]


async def read_cluster(address: Address, timeout: float, count_strays: bool = False) -> ClusterFacts:
    """Asks all nodes of a cluster.

    Args:
        timeout: seconds that each of them may take.
        count_strays: whether to count keys in slots of others, which costs each primary a few ms for each shard.

    Raises:
        StoreUnreachable: none answers; AccessRefused, AddressError: because all refuse us, or it is no cluster.
    """
    asked = await asyncio.gather(*(_seed(address, place, timeout) for place in address.nodes), return_exceptions=True)
    seeds = [one for one in asked if isinstance(one, _Seed)]
    if not seeds:
        why = [unanswered(one, timeout) for one in asked if isinstance(one, Exception)]
        kinds = {type(one) for one in why}
        kind = kinds.pop() if len(kinds) == 1 else StoreUnreachable
        raise kind(f"no node of {address} answers: {'; '.join(sorted({str(one) for one in why}))}")
    # Nodes that were removed or reset go on answering, with an older map or none.
    best = max(seeds, key=lambda seed: (any(row.ranges for row in seed.rows), seed.epoch))
    known = {row.node.id: (row.node, row.primary) for row in best.rows}
    owners = _owners(best.rows)
    shards = {node: number for number, node in enumerate(dict.fromkeys(filter(None, owners)))}
    for node, primary in known.values():
        node.shard = shards.get(primary or node.id, -1)
    nodes = [node for node, _ in known.values()]
    views = await asyncio.gather(*(_fill(address, node, timeout) for node in nodes))
    for node, rows in zip(nodes, views, strict=True):
        node.differs = sum(a != b for a, b in zip(owners, _owners(rows), strict=True)) if rows else 0
        places = {one.id: one.place for one in nodes}
        moving = {slot: way.partition(" ") for slot, way in node.moving.items()}
        node.moving = {slot: f"{way} {places.get(other, other)}" for slot, (way, _, other) in moving.items()}
        if count_strays and node.role == "primary" and not node.away:
            node.stray_keys = await _strays(address, node, [slot for slot in range(SLOTS) if owners[slot] != node.id])
    offsets = {node.id: int(node.info.get("master_repl_offset", 0)) for node in nodes}
    for node, primary in known.values():
        if node.role == "replica" and not node.away and primary in offsets and not known[primary][0].away:
            node.lag_bytes = max(0, offsets[primary] - int(node.info.get("slave_repl_offset", 0)))
    nodes.sort(key=lambda node: (node.shard, node.role, node.place))
    return ClusterFacts(
        nodes=nodes,
        uncovered=_missing(owners),
        strangers=[seed.place for seed in seeds if seed.id not in known],
        owners=[shards.get(node, -1) for node in owners],
    )


class _Row(msgspec.Struct):
    node: NodeFacts
    primary: str
    ranges: list[tuple[int, int]]


class _Seed(msgspec.Struct):
    """What a node that the URL names says of the cluster."""

    id: str
    place: str
    rows: list[_Row]
    epoch: int


async def _seed(address: Address, place: Place, timeout: float) -> _Seed:
    """Raises RedisError, OSError, ValueError: it does not answer."""
    nodes, state, named = await ask_node(
        address, place, timeout, ("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("CLUSTER", "MYID")
    )
    epoch = int(_facts(state).get("cluster_current_epoch", 0))
    return _Seed(named.decode(), f"{place[0]}:{place[1]}", _rows(nodes, place), epoch)


def _owners(rows: Sequence[_Row]) -> list[str]:
    """The id of the node that has each slot; '': none has it."""
    owners = [""] * SLOTS
    for row in rows:
        for first, last in row.ranges:
            owners[first : last + 1] = [row.node.id] * (last - first + 1)
    return owners


def _rows(text: bytes, asked: Place) -> list[_Row]:
    """The lines of CLUSTER NODES, without nodes that are only being introduced."""
    rows = []
    for line in text.decode().splitlines():
        name, where, flags, primary, *_, slots = [*line.split(" ", 8), ""][:9]
        if {"noaddr", "handshake"} & set(flags.split(",")):
            continue
        host, _, port = where.partition(",")[0].partition("@")[0].rpartition(":")
        announced = where.partition(",")[2].partition(",")[0]
        place = f"{announced or host or asked[0]}:{port}"
        ranges = [_range(word) for word in slots.split() if not word.startswith("[")]
        role = "replica" if "slave" in flags.split(",") else "primary"
        node = NodeFacts(id=name, place=place, role=role, slots=sum(last - first + 1 for first, last in ranges))
        rows.append(_Row(node, "" if primary == "-" else primary, ranges))
    return rows


def _range(word: str) -> tuple[int, int]:
    first, _, last = word.partition("-")
    return int(first), int(last or first)


async def _fill(address: Address, node: NodeFacts, timeout: float) -> list[_Row]:
    """Asks one node; returns what it says of the cluster, nothing if it does not answer."""
    place = node.at
    try:
        nodes, state, info, clock = await ask_node(
            address, place, timeout, ("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("INFO",), ("TIME",)
        )
        node.clock_seconds = _seconds(clock) - time.time()
        times = [_seconds(one) for one in await ask_node(address, place, timeout, *[("TIME",)] * _PINGS)]
    except (RedisError, OSError, ValueError) as error:
        node.away = str(unanswered(error, timeout))
        return []
    node.latency_ms = round(min(b - a for a, b in pairwise(times)) * 1000, 2)  # by the node's own clock
    node.state = _facts(state).get("cluster_state", "")
    node.info = dict(_facts(info))
    node.version = f"Valkey {found}" if (found := node.info.get("valkey_version")) else str(node.info["redis_version"])
    node.memory_bytes = int(node.info.get("used_memory", 0))
    node.memory_limit_bytes = int(node.info.get("maxmemory", 0))
    node.linked = node.info.get("master_link_status", "up") == "up"
    node.moving = _moving(nodes)
    try:
        libraries = await ask_node(address, place, timeout, ("FUNCTION", "LIST", "LIBRARYNAME", "fleet_*"))
        named = (library[1] if isinstance(library, list) else library[b"library_name"] for library in libraries)
        present = {usual_name(name.decode()) for name in named}
        node.lacking = len({library.name for library in _libraries()} - present)
    except (RedisError, OSError) as error:
        node.no_functions = str(unanswered(error, timeout))
    try:
        node.config = dict(_text(await ask_node(address, place, timeout, ("CONFIG", "GET", *_SETTINGS))))
    except (RedisError, OSError):
        node.config = {}
    return _rows(nodes, place)


async def _strays(address: Address, node: NodeFacts, slots: list[int]) -> dict[str, int]:
    """The keys that a node has in these slots, without those that it is getting; -1 for all that it did not count."""
    found: dict[str, int] = {}
    try:
        for first in range(0, len(slots), _AT_ONCE):
            some = slots[first : first + _AT_ONCE]
            words = [("CLUSTER", "COUNTKEYSINSLOT", str(slot)) for slot in some]
            counts = await ask_node(address, node.at, _COUNT_SECONDS, *words)
            found |= {str(slot): count for slot, count in zip(some, counts, strict=True) if count}
    except (RedisError, OSError, TypeError):
        return {"": -1}
    return {slot: count for slot, count in found.items() if slot not in node.moving}


def _libraries() -> set[Library]:
    return {script.function_library for script in Script.registered()}


def _moving(text: bytes) -> dict[str, str]:
    """The open slots in a node's own line: ``[93->-id]`` on its way to another node, ``[93-<-id]`` from there."""
    mine = next((line for line in text.decode().splitlines() if "myself" in line.split(" ")[2]), "")
    found = {}
    for word in mine.split():
        for arrow, way in (("->-", "to"), ("-<-", "from")):
            if word.startswith("[") and arrow in word:
                slot, _, other = word.strip("[]").partition(arrow)
                found[slot] = f"{way} {other}"
    return found


def _missing(owners: list[str]) -> list[str]:
    ranges = []
    for owned, group in groupby(range(SLOTS), key=lambda slot: bool(owners[slot])):
        if not owned:
            slots = list(group)
            ranges.append(f"{slots[0]}-{slots[-1]}" if len(slots) > 1 else str(slots[0]))
    return ranges


async def ask_node(address: Address, place: Place, timeout: float, *commands: tuple[str, ...]) -> Any:
    """The reply of one node to a command, or those to several."""
    limits: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    client: Any = clients.async_client(address.of_node(place), protocol=2, retry=Retry(NoBackoff(), 0), **limits)
    try:
        async with asyncio.timeout(timeout):
            client.response_callbacks.clear()
            if len(commands) > 10:
                pipe = client.pipeline(transaction=False)
                for words in commands:
                    pipe.execute_command(*words)
                return await pipe.execute()
            found = [await client.execute_command(*words) for words in commands]
            return found if len(found) > 1 else found[0]
    finally:
        await client.connection_pool.disconnect(inuse_connections=True)


def _seconds(clock: list[bytes]) -> float:
    return int(clock[0]) + int(clock[1]) / 1e6


def _facts(text: bytes) -> Mapping[str, str]:
    return dict(line.split(":", 1) for line in text.decode(errors="replace").splitlines() if ":" in line)


def _text(flat: list[bytes]) -> list[tuple[str, str]]:
    words = [word.decode(errors="replace") for word in flat]
    return list(zip(words[::2], words[1::2], strict=True))
