"""redis-py clients of the server that an ``Address`` names; with Sentinels, of the one that they say is the primary.

Sentinels are asked anew for each connection, so clients and the link (``shared.py``) follow a failover. In a cluster, a
client is for the keys of one hash tag: each of its connections goes to the node that has them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from coordinator.store import keys
from coordinator.store.errors import AccessRefused, StoreUnreachable
from coordinator.store.link.address import Address
from coordinator.store.link.slot_map import (
    ToOwner,
    ToOwnerAsync,
    ToOwnerAsyncTls,
    ToOwnerTls,
    async_node_client,
    node_client,
    slot_of,
)

Resolver = Callable[[], Awaitable[Address]]
"""Says where the primary is now. Raises StoreUnreachable if nobody knows."""
Ask = Callable[[Sequence[tuple[str | bytes | int, ...]]], Awaitable[list[Any]]]
"""Sends commands over one connection, and returns the replies, errors as values."""
Confirm = Callable[[Address, Ask], Awaitable[bool | None]]
"""Whether the server at an address, which is asked over its connection, is still the primary; None: nobody knows."""

_SENTINEL_SECONDS = 1.0
"""How long one Sentinel may take to answer before the next one is asked."""


def client(address: Address, tag: str = keys.FLEET, **options: Any) -> redis.Redis:
    """A client for threads.

    Args:
        tag: the hash tag of the keys that it is for.
        options: those of ``redis.Redis``.
    """
    if address.nodes:
        options = _to_owner(address, tag, options)
        tls = options.pop("ssl", False)
        pool = redis.ConnectionPool(connection_class=ToOwnerTls if tls else ToOwner, **options)
        return redis.Redis.from_pool(pool)
    if not address.sentinels:
        return node_client(address, **options)
    asking = _sentinel_options(address, _SENTINEL_SECONDS) | {"retry": Retry(NoBackoff(), 0)}
    sentinel = redis.sentinel.Sentinel(address.sentinels, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    primary: redis.Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
        address.service, **address.client_options(), **options
    )
    return primary


def async_client(address: Address, tag: str = keys.FLEET, **options: Any) -> redis.asyncio.Redis:
    """A client for event loops. Arguments as for ``client``, with the options of ``redis.asyncio.Redis``."""
    if address.nodes:
        options = _to_owner(address, tag, options)
        tls = options.pop("ssl", False)
        pool = redis.asyncio.ConnectionPool(connection_class=ToOwnerAsyncTls if tls else ToOwnerAsync, **options)
        return redis.asyncio.Redis.from_pool(pool)
    if not address.sentinels:
        return async_node_client(address, **options)
    sentinel = _sentinel(address, _SENTINEL_SECONDS)
    primary: redis.asyncio.Redis = sentinel.master_for(address.service, **address.client_options(), **options)
    return primary


def _to_owner(address: Address, tag: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options of connections to the node that has the keys of a tag."""
    options = {**address.client_options(), **options, "cluster": address, "slot": slot_of(tag)}
    if address.tls:
        options["tls_name"] = address.tls_name
    if tag != keys.FLEET:
        options.pop("redis_connect_func", None)  # it asks for a key of the fleet, which this node may not have
    return options


def address_of(client: redis.Redis) -> Address:
    """Where a client's connections go; for one of a cluster, the whole cluster."""
    pool = client.connection_pool
    options = pool.connection_kwargs
    if "cluster" in options:
        cluster: Address = options["cluster"]
        return cluster
    username, password, db = options.get("username") or "", options.get("password") or "", options.get("db") or 0
    if "path" in options:
        return Address(path=options["path"], db=db, username=username, password=password)
    tls = issubclass(pool.connection_class, redis.SSLConnection)
    stated = _tls_options(options) if tls else ()
    address = Address(db=db, username=username, password=password, tls=tls, tls_options=stated)
    if not isinstance(pool, redis.sentinel.SentinelConnectionPool):
        return replace(address, host=options.get("host") or "localhost", port=options.get("port") or 6379)
    known = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    return replace(
        address,
        host="",
        sentinels=tuple((one["host"], one["port"]) for one in known),
        service=pool.service_name,
        sentinel_username=known[0].get("username") or "",
        sentinel_password=known[0].get("password") or "",
    )


def _tls_options(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found = {name: options[name] for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile") if options.get(name)}
    if options.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE):
        found["ssl_cert_reqs"] = "none"
    elif options.get("ssl_check_hostname") is False:
        found["ssl_check_hostname"] = "false"
    return tuple(sorted(found.items()))


def resolver(address: Address, timeout: float) -> Resolver | None:
    """A resolver that asks the Sentinels of an address; None if it has none.

    Args:
        timeout: seconds that one Sentinel may take to answer before the next one is asked.
    """
    if not address.sentinels:
        return None
    sentinel = _sentinel(address, timeout)

    async def primary() -> Address:
        try:
            host, port = await sentinel.discover_master(address.service)
        except (RedisError, OSError) as error:
            why = f"no Sentinel of {address} knows a primary that is up"
            # The text contains connection options, but nothing else says what the Sentinels answered.
            if AuthenticationError.__name__ in str(error):
                raise AccessRefused(f"{why}; sentinel_username or sentinel_password is wrong, or missing") from None
            raise StoreUnreachable(why) from None
        return replace(address, host=host, port=port, sentinels=(), service="")

    return primary


def confirmer(address: Address, timeout: float) -> Confirm | None:
    """Asks the Sentinels of an address whether a server is the primary; None if it has none.

    Args:
        timeout: seconds that they may take to answer.
    """
    if not address.sentinels:
        return None

    async def confirm(primary: Address, ask: Ask) -> bool | None:
        return await confirmed(address, primary, timeout)

    return confirm


async def confirmed(address: Address, primary: Address, timeout: float) -> bool | None:
    """Whether most of the Sentinels that answer within ``timeout`` seconds name this primary; None: nobody can tell.

    One that has not heard of a failover yet still names the old one. Returns as soon as the outstanding answers cannot
    change the result.
    """
    sentinels = _sentinel(address, timeout).sentinels
    asked = [asyncio.ensure_future(one.sentinel_get_master_addr_by_name(address.service)) for one in sentinels]
    loop = asyncio.get_running_loop()
    deadline, pending, agree, differ = loop.time() + timeout, set(asked), 0, 0
    try:
        while agree <= differ + len(pending) and differ < agree + len(pending):
            done, pending = await asyncio.wait(
                pending, timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                break
            for one in done:
                if one.exception() is None and isinstance(named := one.result(), tuple):
                    same = (_text(named[0]), named[1]) == (primary.host, primary.port)
                    agree, differ = agree + same, differ + (not same)
    finally:
        for one in pending:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for sentinel in sentinels:
            await sentinel.connection_pool.disconnect(inuse_connections=True)
    return None if agree == differ else agree > differ


def _text(host: str | bytes) -> str:
    return host.decode() if isinstance(host, bytes) else host


async def down_after(address: Address, timeout: float) -> float | None:
    """The Sentinels' ``down-after-milliseconds``, in seconds; None: there are no Sentinels, or none answers."""
    if not address.sentinels:
        return None
    for one in _sentinel(address, timeout).sentinels:
        try:
            state: Any = await one.sentinel_master(address.service)
            return int(state["down-after-milliseconds"]) / 1000
        except (RedisError, OSError, KeyError, ValueError):
            continue
        finally:
            await one.connection_pool.disconnect(inuse_connections=False)
    return None


class _Sentinel(redis.asyncio.sentinel.Sentinel):
    """Closes its connections after each query: the next one may be days later, and no client of ours closes them."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            place: tuple[str, int] = await super().discover_master(service_name)
            return place
        finally:
            for one in self.sentinels:
                await one.connection_pool.disconnect(inuse_connections=False)


def _sentinel(address: Address, timeout: float) -> _Sentinel:
    options = _sentinel_options(address, timeout) | {"retry": AsyncRetry(NoBackoff(), 0)}
    return _Sentinel(address.sentinels, sentinel_kwargs=options)  # type: ignore[no-untyped-call]


def _sentinel_options(address: Address, timeout: float) -> dict[str, Any]:
    return {**address.sentinel_options(), "socket_timeout": timeout, "socket_connect_timeout": timeout}
