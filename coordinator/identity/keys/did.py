"""did:web: issuers whose keys are in a document on their own web site.

An issuer is trusted only if an operator has named it, or a pattern that it matches. Only then is its document fetched
(over https, from public addresses). The document must name the same DID, and a key counts only if the document says
that the DID controls it and that it signs assertions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, unquote

from coordinator.identity.jws import BadToken
from coordinator.identity.keys.keyset import BadDocument, KeySet, usable

_PREFIX = "did:web:"
_MOST = 500
"""Characters of a DID."""
_METHODS = 100
"""Entries of one list of verification methods."""
_HOST = re.compile(
    r"(?=.{1,253}\Z)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_SEGMENT = re.compile(r"([A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+")


def locate(did: str, allow_loopback: bool = False) -> str:
    """The URL of a DID's document.

    Raises:
        BadToken: policy; it is not a did:web identifier, or its host is not a public name.
    """
    if len(did) > _MOST or not did.startswith(_PREFIX):
        raise BadToken("policy", "the issuer is no did:web identifier")
    head, *path = did[len(_PREFIX) :].split(":")
    host, encoded, port = unquote(head).partition(":")
    if "%" in head and head.lower() != f"{host}%3a{port}".lower():
        raise BadToken("policy", "the issuer is no did:web identifier: its host holds more than a name and a port")
    if not _HOST.fullmatch(host) or (encoded and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536)):
        raise BadToken("policy", "the issuer is no did:web identifier: its host is malformed")
    local = allow_loopback and host.lower() == "localhost"
    if _is_address(host) or ("." not in host and not local):
        raise BadToken("policy", "the issuer's host must be a public name, not an address")
    if not all(map(_plain, path)):
        raise BadToken("policy", "the issuer is no did:web identifier: its path is malformed")
    way = "/".join(quote(unquote(segment), safe="") for segment in path) if path else ".well-known"
    netloc = host.lower() + (f":{int(port)}" if port else "")
    return f"https://{netloc}/{way}/did.json"


class Trust:
    """Which issuers are trusted.

    Args:
        allowlist: trusted issuers.
        pattern: issuers that match are trusted too; ``*`` stands for the text between two colons, or a part of it.
            Empty: there is no pattern.
    """

    def __init__(self, allowlist: tuple[str, ...], pattern: str) -> None:
        self._allowlist = frozenset(allowlist)
        self._pattern: re.Pattern[str] | None = None
        if pattern:
            # A wildcard in the host never matches a port, because another port is another server.
            head, *path = pattern[len(_PREFIX) :].split(":")
            parts = [
                re.escape(head).replace(r"\*", "[A-Za-z0-9.-]*"),
                *(re.escape(one).replace(r"\*", "[A-Za-z0-9._~%-]*") for one in path),
            ]
            self._pattern = re.compile(re.escape(_PREFIX) + ":".join(parts))

    def __contains__(self, did: str) -> bool:
        return did in self._allowlist or (self._pattern is not None and self._pattern.fullmatch(did) is not None)


def document_keys(document: Mapping[str, Any], did: str, strict: bool) -> KeySet:
    """The keys of a DID document, named by the fragments of their ids.

    Args:
        strict: whether only keys listed under assertionMethod count.

    Raises:
        BadToken: policy; the document is that of another DID.
        BadDocument: it has no usable key.
    """
    if document.get("id") != did:
        raise BadToken("policy", "the issuer's document is for another DID")
    methods = dict(_methods(document.get("verificationMethod"), did))
    asserting = document.get("assertionMethod", [])
    if not isinstance(asserting, list) or len(asserting) > _METHODS:
        raise BadDocument(f"gave a DID document whose assertionMethod is no list of at most {_METHODS}")
    named = {_fragment(one, did) for one in asserting if isinstance(one, str)}
    embedded = dict(_methods([one for one in asserting if isinstance(one, dict)], did))
    counting = {**{name: one for name, one in methods.items() if not strict or name in named}, **embedded}
    return usable((method.get("publicKeyJwk"), name) for name, method in counting.items())


def fragment(kid: str, did: str) -> str | None:
    """The key's name in a 'kid' that is a fragment (with or without '#') or the key's URL; None: another DID's key."""
    return _fragment(kid if "#" in kid else f"#{kid}", did)


def _methods(listed: object, did: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Verification methods that the DID controls, by fragment."""
    if listed is None:
        return
    if not isinstance(listed, list) or len(listed) > _METHODS:
        raise BadDocument(f"gave a DID document whose verificationMethod is no list of at most {_METHODS}")
    for method in listed:
        if isinstance(method, dict) and method.get("controller") == did and isinstance(method.get("id"), str):
            name = _fragment(method["id"], did)
            if name:
                yield name, method


def _fragment(url: str, did: str) -> str | None:
    base, _, name = url.partition("#")
    return name if name and base in ("", did) else None


def _plain(segment: str) -> bool:
    """Whether every server reads this segment of a path in the same way."""
    text = unquote(segment)
    return (
        _SEGMENT.fullmatch(segment) is not None
        and text not in (".", "..")
        and text.isprintable()
        and not set(text) & set("/\\?#:@")
    )


def _is_address(host: str) -> bool:
    """Whether a resolver may take the name for an IP address; some still accept old spellings of these."""
    try:
        ip_address(host)
    except ValueError:
        return _NUMERIC.fullmatch(host.rpartition(".")[2]) is not None
    return True
