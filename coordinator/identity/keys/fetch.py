"""Gets one small JSON document over HTTP, within limits that hold against a hostile or broken server.

No redirects, only status 200, only the expected content types, at most 1 MiB on the wire (compressed answers are
refused), and 5 seconds for everything together.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit
from weakref import WeakValueDictionary

import httpx2

from coordinator.connect_failures import RESOLVE, cause_of
from coordinator.http_dates import unix_seconds
from coordinator.identity.keys import ssrf

MAX_BYTES = 1_048_576
PER_HOST = 4
"""Concurrent requests to one host, if others choose the URLs."""
TOTAL_SECONDS = 5.0
CONNECT_SECONDS = 3.0
"""For all addresses of a host together."""

JWKS_TYPES = ("application/json", "application/jwk-set+json")
JSON_TYPES = ("application/json",)
DID_TYPES = ("application/did+json", "application/json", "application/did+ld+json")


_SILENT = "is a firewall in between? the fleet continues with the last keys that it got"


class FetchFailed(Exception):
    """There is no document.

    Args:
        reason: completes "the key server ..." and holds no URL.
        advice: what an operator can do about it.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


class Fetched(NamedTuple):
    """An answer."""

    body: bytes
    date: float | None
    """The server's time in Unix seconds, if its answer has one."""


class _Sent(NamedTuple):
    """What is posted."""

    body: bytes
    headers: Mapping[str, str]


class Fetcher:
    """Gets documents for one process."""

    def __init__(self) -> None:
        self._tls: asyncio.Future[ssl.SSLContext] | None = None
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Fetched:
        """The JSON that answers a form, which an operator's settings lead to.

        Raises:
            FetchFailed: there is no such answer.
        """
        sent = {"content-type": "application/x-www-form-urlencoded", **headers}
        return await self._within_time(url, JSON_TYPES, None, _Sent(urlencode(form).encode(), sent))

    async def get(self, url: str, types: Collection[str], guard: ssrf.SsrfGuard | None = None) -> Fetched:
        """The document at a URL.

        Args:
            types: content types that are accepted.
            guard: decides which addresses may be connected to; None: any, and the environment's proxies are used.

        Raises:
            FetchFailed: no document could be fetched.
        """
        if guard is None:
            return await self._within_time(url, types, None)
        host = self._hosts.setdefault(urlsplit(url).netloc, asyncio.Semaphore(PER_HOST))
        async with host:
            return await self._within_time(url, types, guard)

    async def _within_time(
        self, url: str, types: Collection[str], guard: ssrf.SsrfGuard | None, sent: _Sent | None = None
    ) -> Fetched:
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                return await self._asked(url, types, guard, sent)
        except TimeoutError:
            raise FetchFailed(f"does not answer within {TOTAL_SECONDS:.0f} seconds", _SILENT) from None
        except httpx2.ConnectTimeout:
            raise FetchFailed(f"cannot be connected to within {CONNECT_SECONDS:.0f} seconds", _SILENT) from None
        except httpx2.TimeoutException:
            raise FetchFailed("stopped answering") from None
        except httpx2.ConnectError as error:
            cause, advice = cause_of(error)
            raise FetchFailed(f"cannot be connected to ({cause})", advice) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError, ValueError) as error:
            raise FetchFailed(f"broke off ({type(error).__name__})") from None

    async def _asked(
        self, url: str, types: Collection[str], guard: ssrf.SsrfGuard | None, sent: _Sent | None
    ) -> Fetched:
        # Reading the trusted certificates takes a while, and without TLS they are not needed.
        context = await self._context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        headers = {"accept": ", ".join(types), "accept-encoding": "identity", "user-agent": "fleet-coordinator"}
        urls: list[ssrf.ResolvedUrl] = [ssrf.ResolvedUrl(url, {}, {})]
        if guard is not None:
            try:
                urls = await guard.resolve(url)
            except ssrf.Refused as refused:
                raise FetchFailed(str(refused), f"{RESOLVE}; it must lead to public addresses only") from None
        async with httpx2.AsyncClient(
            verify=context,
            trust_env=guard is None,
            timeout=httpx2.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS / max(len(urls), 1)),
            follow_redirects=False,
        ) as client:
            for last, one in ((one is urls[-1], one) for one in urls):
                request = client.build_request(
                    "GET" if sent is None else "POST",
                    one.url,
                    content=None if sent is None else sent.body,
                    headers={**headers, **one.headers, **({} if sent is None else sent.headers)},
                    extensions=dict(one.extensions),
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    if last:
                        raise
                    continue
                async with contextlib.aclosing(response):
                    return await _read(response, types)
        raise FetchFailed("has no address")

    async def _context(self) -> ssl.SSLContext:
        """The trusted certificates: the system's, or those of SSL_CERT_FILE. Read once, in a thread."""
        if self._tls is None or (self._tls.done() and (self._tls.cancelled() or self._tls.exception())):
            self._tls = asyncio.ensure_future(asyncio.to_thread(httpx2.create_ssl_context))
        return await asyncio.shield(self._tls)


async def _read(response: httpx2.Response, types: Collection[str]) -> Fetched:
    if response.status_code != 200:
        more, advice = "", "check the path" if response.status_code == 404 else ""
        if response.has_redirect_location:
            more, advice = "; redirects are not followed", "configure the address that it redirects to"
        raise FetchFailed(f"answered with status {response.status_code} instead of 200{more}", advice)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in types:
        raise FetchFailed(f"answered with a content type other than {' or '.join(types)}")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise FetchFailed("answered with a compressed body, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise FetchFailed(f"answered with more than {MAX_BYTES} bytes")
    return Fetched(bytes(body), _date(response.headers.get("date")))


def _date(text: str | None) -> float | None:
    try:
        return unix_seconds(text) if text else None
    except (ValueError, OverflowError):
        return None


def shown(url: str) -> str:
    """A URL for people, without its query."""
    parts = urlsplit(url)
    return parts._replace(query="", fragment="", netloc=parts.netloc.rpartition("@")[2]).geturl()
