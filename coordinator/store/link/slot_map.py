"""Which node of a cluster has which slots: what nodes say, and redis-py connections to the node that has a slot."""

from __future__ import annotations

import asyncio
import random
import re
from binascii import crc_hqx
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import redis.asyncio.connection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from coordinator.store import keys
from coordinator.store.errors import AccessRefused, AddressError, StoreError, StoreUnreachable, access_problem
from coordinator.store.link.address import Address, Place
from coordinator.store.link.tls_names import NamedTls, NamedTlsAsync

SLOTS = 16384
NODE_SECONDS = 1.0
"""How long a node may take to say who has a slot before the next one is asked."""
_TAG = re.compile(rb"\{([^{}]+)\}")
_SLOTS, _INFO = ("CLUSTER", "SLOTS"), ("CLUSTER", "INFO")
_ELSEWHERE = (AskError, ClusterDownError, MovedError, ReadOnlyError, TryAgainError)
"""Replies after which a connection has to find the node anew. Nothing has been done then."""


def slot_of(tag: str) -> int:
    return crc_hqx(tag.encode(), 0) % SLOTS


def tag_of(words: tuple[str | bytes | int, ...]) -> str:
    """The hash tag of the first key in a command; without keys, that of the fleet."""
    for word in words[1:]:
        found = None if isinstance(word, int) else _TAG.search(word if isinstance(word, bytes) else word.encode())
        if found is not None:
            return found[1].decode()
    return keys.FLEET


class Range(NamedTuple):
    """Slots of one primary."""

    first: int
    last: int
    node: str
    """Its id."""
    place: Place


class Map(NamedTuple):
    """The slots of a cluster, as one node knows them."""

    epoch: int
    """Rises with each change on which the nodes agree."""
    ranges: list[Range]
    nodes: frozenset[Place]
    """Where the nodes of these slots are, replicas among them."""

    def owner(self, slot: int) -> Place | None:
        """Where the node is that has a slot; None: no node has it."""
        return next((one.place for one in self.ranges if one.first <= slot <= one.last), None)


def parse_map(asked: Place, slots: Any, info: bytes) -> Map:
    """The map in the replies of a node to CLUSTER SLOTS and CLUSTER INFO.

    Args:
        asked: where it was asked; a node that does not know how it is reached announces no host.
    """
    facts = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    ranges, nodes = [], set()
    for first, last, *members in slots:
        places = [((host or b"").decode() or asked[0], int(port)) for host, port, *_ in members]
        nodes.update(places)
        ranges.append(Range(first, last, members[0][2].decode(), places[0]))
    return Map(int(facts.get("cluster_current_epoch", 0)), ranges, frozenset(nodes))


async def read_map(address: Address, place: Place, timeout: float) -> Map:
    """Asks the node that announces itself at a place.

    Raises:
        RedisError, OSError, ValueError: it does not answer in time, or not with a map.
    """
    limits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    client = async_node_client(address.of_node(place), **limits, retry=AsyncRetry(NoBackoff(), 0))
    try:
        async with asyncio.timeout(timeout):
            slots: Any = await client.execute_command(*_SLOTS)  # type: ignore[no-untyped-call, unused-ignore]
            info: Any = await client.execute_command(*_INFO)  # type: ignore[no-untyped-call, unused-ignore]
    finally:
        await client.connection_pool.disconnect(inuse_connections=True)
    return parse_map(place, slots, info)


def unanswered(error: Exception, seconds: float) -> StoreError:
    """Why a node has not answered what it was asked.

    Args:
        seconds: how long it was given.
    """
    text = str(error)
    if isinstance(error, AuthenticationError):
        return AccessRefused(access_problem(text))
    if "cluster support disabled" in text:
        return AddressError("it is no node of a cluster: its URL begins with redis:// or rediss://")
    return StoreUnreachable(text or f"no answer within {seconds:g} s")


def _read_map(address: Address, place: Place) -> Map:
    limits = {"socket_timeout": NODE_SECONDS, "socket_connect_timeout": NODE_SECONDS}
    client = node_client(address.of_node(place), **limits, retry=Retry(NoBackoff(), 0))
    try:
        slots: Any = client.execute_command(*_SLOTS)  # type: ignore[no-untyped-call, unused-ignore]
        info: Any = client.execute_command(*_INFO)  # type: ignore[no-untyped-call, unused-ignore]
    finally:
        client.close()
    return parse_map(place, slots, info)


def node_client(address: Address, **options: Any) -> redis.Redis:
    """A client of one server for threads, with the options of ``redis.Redis``."""
    options = {**address.client_options(), **options}
    if not address.tls_name:
        return redis.Redis(**options)
    del options["ssl"]
    named: Any = NamedTls
    return redis.Redis.from_pool(redis.ConnectionPool(connection_class=named, tls_name=address.tls_name, **options))


def async_node_client(address: Address, **options: Any) -> redis.asyncio.Redis:
    """The same for event loops."""
    options = {**address.client_options(), **options}
    if not address.tls_name:
        return redis.asyncio.Redis(**options)
    del options["ssl"]
    named: Any = NamedTlsAsync
    pool = redis.asyncio.ConnectionPool(connection_class=named, tls_name=address.tls_name, **options)
    return redis.asyncio.Redis.from_pool(pool)


def _shuffled(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda _: random.random())


def _search(address: Address, slot: int) -> Generator[Place, Map | None, Address]:
    """Yields the nodes to ask for the owner of a slot, and gets their maps, None from those that do not answer.

    The owner itself is believed only if no other node answers: it may have been paused, and not know that it has lost
    its slots.

    Returns:
        The owner's address.

    Raises:
        RedisConnectionError: no node is known to have the slot.
    """
    left, asked = _shuffled(address.nodes), set[Place]()
    found: Place | None = None
    while left:
        place = left.pop()
        asked.add(place)
        answer = yield place
        if answer is None:
            continue
        left = _shuffled({*left, *answer.nodes} - asked)
        found = answer.owner(slot) or found
        if found not in (None, place):
            break
    if found is None:
        raise RedisConnectionError("no node of the cluster says who has these keys")
    return address.of_node(found)


def find_owner(address: Address, slot: int) -> Address:
    """The address of the node that has a slot, for threads. Raises RedisConnectionError: nobody knows."""
    search = _search(address, slot)
    try:
        place = next(search)
        while True:
            try:
                answer = _read_map(address, place)
            except (RedisError, OSError, ValueError):
                answer = None
            place = search.send(answer)
    except StopIteration as done:
        owner: Address = done.value
        return owner


async def find_owner_async(address: Address, slot: int) -> Address:
    """The same for event loops."""
    search = _search(address, slot)
    try:
        place = next(search)
        while True:
            try:
                answer = await read_map(address, place, NODE_SECONDS)
            except (RedisError, OSError, ValueError):
                answer = None
            place = search.send(answer)
    except StopIteration as done:
        owner: Address = done.value
        return owner


if TYPE_CHECKING:
    _Base = Connection
    _AsyncBase = redis.asyncio.connection.Connection
else:
    _Base = _AsyncBase = object


class _ToOwner(_Base):
    """Connects to the node that has a slot, and finds it anew when that has moved."""

    def __init__(self, *, cluster: Address, slot: int, **options: Any) -> None:
        self._cluster, self._slot = cluster, slot
        super().__init__(**options)  # type: ignore[no-untyped-call, unused-ignore]

    def _connect(self) -> Any:
        found = find_owner(self._cluster, self._slot)
        self.host, self.port = found.host, found.port
        return super()._connect()  # type: ignore[no-untyped-call, unused-ignore]

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[no-untyped-call, unused-ignore]
        except _ELSEWHERE as error:
            self.disconnect()  # type: ignore[no-untyped-call, unused-ignore]
            raise RedisConnectionError(f"the node does not have these keys now: {error}") from None


class ToOwner(_ToOwner, Connection):
    """For threads."""


class ToOwnerTls(_ToOwner, NamedTls):
    """The same with TLS."""


class _ToOwnerAsync(_AsyncBase):
    def __init__(self, *, cluster: Address, slot: int, **options: Any) -> None:
        self._cluster, self._slot = cluster, slot
        super().__init__(**options)

    async def _connect(self) -> None:
        found = await find_owner_async(self._cluster, self._slot)
        self.host, self.port = found.host, found.port
        await super()._connect()  # type: ignore[no-untyped-call, unused-ignore]

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except _ELSEWHERE as error:
            await self.disconnect()
            raise RedisConnectionError(f"the node does not have these keys now: {error}") from None


class ToOwnerAsync(_ToOwnerAsync, redis.asyncio.connection.Connection):
    """For event loops."""


class ToOwnerAsyncTls(_ToOwnerAsync, NamedTlsAsync):
    """The same with TLS."""
