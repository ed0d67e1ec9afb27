"""Protection against server-side request forgery (SSRF) for requests to URLs chosen by others.

The host is resolved here, all its addresses must be public, and the connection goes to one of these addresses. So a
name that resolves differently the second time (DNS rebinding) does not help an attacker.
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
"""The addresses allocated as global unicast. Others that Python calls global may lead into our own network."""
_RESERVED = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2002::/16"),
    IPv6Network("3fff::/20"),
)
"""Networks for protocols, documentation and the abandoned 6to4. Not all versions of Python call them private."""
_MOST = 3
"""How many addresses of a host are tried."""

Address = IPv4Address | IPv6Address


class Refused(Exception):
    """The host must not be contacted. The message completes "the key server ..."."""


class ResolvedUrl(NamedTuple):
    """A URL with an address in place of its host, and what the request needs to still name the host."""

    url: str
    headers: Mapping[str, str]
    extensions: Mapping[str, Any]


class SsrfGuard:
    """Lets requests go to public addresses only.

    Args:
        allow_loopback: whether this machine counts as public, for development.
        allow_private: whether all addresses count as public: only the pinning of addresses is left then.
    """

    def __init__(self, allow_loopback: bool = False, allow_private: bool = False) -> None:
        self._allow_loopback = allow_loopback
        self._allow_private = allow_private

    async def resolve(self, url: str) -> list[ResolvedUrl]:
        """The URL once for each address of its host. Certificates are still checked against the name.

        Raises:
            Refused: the host has no address, or one that is not public.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (80 if parts.scheme == "http" else 443)
        found: list[ResolvedUrl] = []
        for address in await addresses_of(host, port):
            if not self.allowed(address):
                raise Refused("has an address that is not public")
            literal = f"[{address}]" if address.version == 6 else str(address)
            to = parts._replace(netloc=f"{literal}:{port}").geturl()
            found.append(ResolvedUrl(to, {"host": parts.netloc}, {"sni_hostname": host}))
        return found[:_MOST]

    def allowed(self, address: Address) -> bool:
        """Whether an address may be connected to. An IPv4 address embedded in it (NAT64, Teredo) must be public too."""
        if self._allow_private:
            return True
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


async def addresses_of(host: str, port: int) -> list[Address]:
    """The addresses of a host, as the system resolves it.

    Raises:
        Refused: it has none.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Refused("has a name that does not resolve") from None
    return list(dict.fromkeys(ip_address(str(info[4][0]).partition("%")[0]) for info in found))
