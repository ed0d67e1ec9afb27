"""Against server-side request forgery (SSRF): which addresses may be asked where somebody else chose the URL.

The host is resolved here, every address it has must be a public one, and the connection goes to
an address that was looked at: a name that resolves differently the second time gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL = IPv6Network("2000::/3")
"""All that is allocated as global unicast; what else Python calls global may lead into the network we are in."""
_RESERVED = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
"""Networks for protocols, documentation and the abandoned 6to4, which not all versions of Python call private."""
_MOST = 3
"""Addresses of a host that are tried."""

Address = IPv4Address | IPv6Address


class Refused(Exception):
    """An address that is not to be asked. The message completes "the key server ..."."""


class ResolvedUrl(NamedTuple):
    """A URL by one address of its host, with what the request needs to name the host nevertheless."""

    url: str
    headers: Mapping[str, str]
    extensions: Mapping[str, Any]


class SsrfGuard:
    """Lets through to public addresses only.

    Args:
        allow_loopback: this machine counts as public, for development.
    """

    def __init__(self, allow_loopback: bool = False) -> None:
        self._allow_loopback = allow_loopback

    async def resolve(self, url: str) -> list[ResolvedUrl]:
        """The same URL by address; certificates are still checked against the name.

        Raises:
            Refused: the host has no address, or one that is not public.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or 443
        found: list[ResolvedUrl] = []
        for address in await _resolve(host, port):
            if not self.allowed(address):
                raise Refused("has an address that is not public")
            literal = f"[{address}]" if address.version == 6 else str(address)
            to = parts._replace(netloc=f"{literal}:{port}").geturl()
            found.append(ResolvedUrl(to, {"host": parts.netloc}, {"sni_hostname": host}))
        return found[:_MOST]

    def allowed(self, address: Address) -> bool:
        """Whether an address may be connected to; those that carry another are judged by both."""
        if address.is_loopback:
            return self._allow_loopback
        if isinstance(address, IPv4Address):
            return _public(address)
        inner = None
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        elif not _public(address) or address not in _GLOBAL:
            return False
        if address.teredo is not None:
            inner = address.teredo[1]
        return inner is None or _public(inner)


def _public(address: Address) -> bool:
    if address.is_multicast or not address.is_global:
        return False
    return not any(address.version == network.version and address in network for network in _RESERVED)


async def _resolve(host: str, port: int) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Refused("has a name that does not resolve") from None
    return list(dict.fromkeys(ip_address(str(info[4][0]).partition("%")[0]) for info in found))
