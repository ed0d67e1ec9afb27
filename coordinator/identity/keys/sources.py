"""The sources of keys: a JWKS by URL, a JWKS that an OpenID provider names, a file, a DID document.

A source only loads its keys; ``cache`` decides when, and handles failures. The loaded keys can be written as a
document of public keys, which the other processes read instead of asking the key server themselves.
"""

from __future__ import annotations

import asyncio
import os
import stat
from abc import ABC, abstractmethod
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from coordinator.identity.jws import BadToken
from coordinator.identity.keys import did, fetch, keyset
from coordinator.identity.keys.fetch import Fetcher, FetchFailed
from coordinator.identity.keys.keyset import BadDocument, KeySet
from coordinator.identity.keys.ssrf import SsrfGuard
from coordinator.settings.paths import unblocked

SourceKind = Literal["oidc_discovery", "jwks_uri", "jwks_path", "did"]


class SourceFailed(Exception):
    """No keys were loaded.

    Args:
        reason: a sentence without URLs or paths, because callers see it.
        kind: network; or policy, if the loaded document must not be trusted.
        advice: what an operator can do about it.
    """

    def __init__(self, reason: str, kind: Literal["network", "policy"] = "network", advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.kind: Literal["network", "policy"] = kind


class Loaded(NamedTuple):
    """What a source gave."""

    keys: KeySet
    issuer: str = ""
    """The issuer that tokens must have, if the source names one."""
    jwks_uri: str = ""
    """Where the source found its keys, if not at its own URL."""
    date: float | None = None
    """The key server's time in Unix seconds, if it gave one."""

    def document(self) -> bytes:
        """Its public keys, for ``RemoteSource.read``."""
        return msgspec.json.encode(_Document([dict(key.jwk) for key in self.keys.keys], self.issuer, self.jwks_uri))


class _Document(msgspec.Struct, omit_defaults=True):
    keys: list[dict[str, object]]
    issuer: str = ""
    jwks_uri: str = ""


class Source(Protocol):
    """A source of keys."""

    kind: SourceKind
    label: str
    """Names the source in logs and to operators."""

    async def load(self) -> Loaded | None:
        """Its keys; None: they have not changed since it was last asked.

        Raises:
            SourceFailed: it has none to give now.
        """


class RemoteSource(ABC):
    """The base of sources over HTTP, which one process loads for the whole fleet."""

    def __init__(self, fetcher: Fetcher, kind: SourceKind, label: str, *identifying: str) -> None:
        self._fetcher = fetcher
        self.kind: SourceKind = kind
        self.label = f"{kind} {label}"
        self.name = sha256("\n".join((kind, *identifying)).encode()).hexdigest()[:24]
        """Its name in keys of the store; the same for the same settings."""

    @abstractmethod
    async def load(self) -> Loaded:
        """Fetches its keys.

        Raises:
            SourceFailed: it has none to give now.
        """

    def read(self, document: bytes) -> Loaded:
        """Reads the copy that another process wrote with ``Loaded.document``.

        Raises:
            SourceFailed: the document is damaged.
        """
        try:
            found = msgspec.json.decode(document, type=_Document)
            return Loaded(
                keyset.key_set({"keys": found.keys}) if found.keys else KeySet(), found.issuer, found.jwks_uri
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadDocument) as error:
            raise SourceFailed(f"the fleet's copy of the keys is damaged: {error}") from None

    async def _get(self, url: str, types: tuple[str, ...], guard: SsrfGuard | None = None) -> fetch.Fetched:
        try:
            return await self._fetcher.get(url, types, guard)
        except FetchFailed as failed:
            raise SourceFailed(f"the key server {failed}", advice=failed.advice) from None


class JwksUri(RemoteSource):
    """A key set by URL."""

    def __init__(self, url: str, fetcher: Fetcher) -> None:
        super().__init__(fetcher, "jwks_uri", fetch.shown(url), url)
        self._url = url

    async def load(self) -> Loaded:
        """Fetches the key set."""
        return await _jwks(await self._get(self._url, fetch.JWKS_TYPES))


class OidcDiscovery(RemoteSource):
    """An OpenID provider: its discovery document names the issuer and the key set.

    Args:
        with_keys: False: only the issuer is needed, because the key set is configured.
    """

    def __init__(self, url: str, with_keys: bool, fetcher: Fetcher) -> None:
        super().__init__(fetcher, "oidc_discovery", fetch.shown(url), url, str(with_keys))
        self._url = url
        self._with_keys = with_keys
        self._issuer = self._jwks_uri = ""
        self._sound = False

    async def load(self) -> Loaded:
        """Fetches the keys; before that the discovery document, if it is not known or the last load has failed."""
        if not (self._sound and self._issuer):
            await self._discover()
        self._sound = False
        found = Loaded(KeySet())
        if self._with_keys:
            found = await _jwks(await self._get(self._jwks_uri, fetch.JWKS_TYPES))
        self._sound = True
        return found._replace(issuer=self._issuer, jwks_uri=self._jwks_uri)

    def read(self, document: bytes) -> Loaded:
        """Reads another process's copy, and takes over what that process has discovered."""
        found = super().read(document)
        self._issuer, self._jwks_uri = found.issuer, found.jwks_uri
        self._sound = bool(found.issuer)
        return found

    async def _discover(self) -> None:
        fetched = await self._get(self._url, fetch.JSON_TYPES)
        try:
            document = keyset.decode(fetched.body)
        except BadDocument as bad:
            raise SourceFailed(f"the discovery document is not usable: the server {bad}") from None
        issuer, jwks_uri = document.get("issuer"), document.get("jwks_uri")
        if not isinstance(issuer, str) or not issuer:
            raise SourceFailed("the discovery document names no issuer")
        if self._with_keys:
            parts = urlsplit(jwks_uri) if isinstance(jwks_uri, str) else None
            # A document that came over https must not lead to http.
            if parts is None or not parts.hostname or parts.scheme not in ("https", urlsplit(self._url).scheme):
                raise SourceFailed("the discovery document names no jwks_uri that could be asked")
        self._issuer, self._jwks_uri = issuer, jwks_uri if isinstance(jwks_uri, str) else ""


class DidDocument(RemoteSource):
    """The key document of one did:web issuer.

    Raises:
        BadToken: policy; no URL follows from the DID.
    """

    def __init__(self, issuer: str, strict: bool, allow_loopback: bool, fetcher: Fetcher) -> None:
        self._url = did.locate(issuer, allow_loopback)
        super().__init__(fetcher, "did", issuer, issuer, str(strict), str(allow_loopback))
        self._issuer = issuer
        self._strict = strict
        self._guard = SsrfGuard(allow_loopback)

    async def load(self) -> Loaded:
        """Fetches the document."""
        fetched = await self._get(self._url, fetch.DID_TYPES, self._guard)
        try:
            return Loaded(did.document_keys(keyset.decode(fetched.body), self._issuer, self._strict), date=fetched.date)
        except BadToken as bad:
            raise SourceFailed(bad.reason, "policy") from None
        except BadDocument as bad:
            raise SourceFailed(f"the key server {bad}", advice=bad.advice) from None


class JwksPath:
    """A key set in a file. Each process reads it for itself."""

    kind: SourceKind = "jwks_path"

    def __init__(self, path: str) -> None:
        self._path = path
        self.label = f"jwks_path {path}"
        self._seen: tuple[int, ...] | None = None

    async def load(self) -> Loaded | None:
        """Reads the file, if it has changed."""
        return await asyncio.to_thread(self._load)

    def _load(self) -> Loaded | None:
        try:
            # Opened first and examined then, so that both concern the same file.
            with open(self._path, "rb", opener=unblocked) as file:
                facts = os.fstat(file.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    raise SourceFailed("the key file is not a regular file")
                seen = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_ctime_ns)
                if seen == self._seen:
                    return None
                data = file.read(fetch.MAX_BYTES + 1)
        except OSError as error:
            self._seen = None
            advice = "check the path and who may read it; a relative one starts at AGENT_CONFIG_DIR"
            raise SourceFailed(f"the key file cannot be read: {error.strerror}", advice=advice) from None
        if len(data) > fetch.MAX_BYTES:
            raise SourceFailed(f"the key file has more than {fetch.MAX_BYTES} bytes")
        try:
            found = Loaded(keyset.key_set(keyset.decode(data)))
        except BadDocument as bad:
            raise SourceFailed(f"the key file {bad}", advice=bad.advice) from None
        self._seen = seen
        return found


async def _jwks(fetched: fetch.Fetched) -> Loaded:
    try:
        # In a thread, because decoding a long set takes a while.
        return Loaded(await asyncio.to_thread(_keys, fetched.body), date=fetched.date)
    except BadDocument as bad:
        raise SourceFailed(f"the key server {bad}", advice=bad.advice) from None


def _keys(body: bytes) -> KeySet:
    return keyset.key_set(keyset.decode(body))
