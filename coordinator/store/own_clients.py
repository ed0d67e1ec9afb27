"""The redis-py clients of a ``Store``, for blocking reads and administration."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

import redis.asyncio
import redis.exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.checks.identity import StoreIdentity
from coordinator.store.cluster.shards import OneServer, Shards
from coordinator.store.link import clients
from coordinator.store.link.address import Address
from coordinator.store.link.slot_map import slot_of, tag_of

_LATE_SECONDS = 2.0
"""How long after its own timeout a blocking call may be answered."""


class ClientsOfStore:
    """The part of ``Store`` that makes clients."""

    identity: StoreIdentity
    _address: Address
    _timeout: float
    _protocol: int
    _shards: OneServer | Shards
    _clients: dict[str, redis.asyncio.Redis]
    _closed: bool

    @property
    def client(self) -> redis.asyncio.Redis:
        """A redis-py client of the server with the fleet's keys, for blocking reads and administration.

        It never retries by itself, and has no read timeout: blocking calls set their own.
        """
        return self.client_of(keys.FLEET)

    def client_of(self, tag: str) -> redis.asyncio.Redis:
        """The same of the server with the keys of a hash tag: a project, or a partition of ``keys``.

        Raises:
            redis.exceptions.ConnectionError: the store is closed; nothing would close a connection made now.
        """
        if self._closed:
            raise redis.exceptions.ConnectionError("the link of this process to the store is closed")
        if tag not in self._clients:
            self._clients[tag] = self.further_client(self._protocol, tag)
        return self._clients[tag]

    def client_of_each(self) -> dict[str, redis.asyncio.Redis]:
        """Clients of all servers with keys, one in each shard, by names for people; '' without shards."""
        return {name: self.client_of(tag) for name, tag in self.tags.items()}

    @property
    def tags(self) -> dict[str, str]:
        """For each shard, by the place of its primary, a hash tag whose keys are there; without shards that of ''."""
        return self._shards.tags

    @property
    def uncovered(self) -> int:
        """Of a cluster, how many slots no node has, so that what is in them cannot be reached."""
        return self._shards.uncovered

    def answering_tag(self, avoid: str = "") -> str:
        """A hash tag whose keys are on a server to which there is a connection; that of the fleet if possible.

        Args:
            avoid: a tag whose server is only taken if there is no other.
        """
        with contextlib.suppress(ToolFailure):
            avoided = self._shards.of(slot_of(avoid)) if avoid else None
            links = [link for link in self._shards.links if link.connected and link is not avoided]
            if not links or self._shards.of(slot_of(keys.FLEET)) in links:
                return keys.FLEET
            return self._shards.tag_on(random.choice(links))
        return keys.FLEET

    def further_client(self, protocol: int, tag: str = keys.FLEET) -> redis.asyncio.Redis:
        """Another client like ``client``, which the caller closes.

        Args:
            protocol: RESP version, 2 or 3.
            tag: the hash tag of the keys that it is for.
        """
        return clients.async_client(
            self._address,
            tag,
            protocol=protocol,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=self._timeout,
            redis_connect_func=self.identity.guard_async,
        )

    async def pop_first(self, lists: Sequence[str | bytes], seconds: float) -> tuple[bytes, bytes] | None:
        """Takes the first element of the first of these lists that has one, with the name of that list; waits for one.

        The lists belong to one partition.

        Args:
            seconds: how long the server waits at most; None is returned then.

        Raises:
            redis.exceptions.RedisError, OSError: the server does not answer, or not in time.
        """
        client: Any = self.client_of(tag_of(("", *lists)))
        # Not by a timeout of the client: before Python 3.12 it may lose that the caller was cancelled.
        async with asyncio.timeout(seconds + _LATE_SECONDS):
            found = await client.blpop(lists, timeout=seconds)
        return None if found is None else (found[0], found[1])
