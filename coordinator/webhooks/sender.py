"""Sends one message to a receiver, within limits that hold against a hostile or broken one.

The receiver's name is resolved for each attempt, its addresses must be public (unless the settings allow others), and
the connection goes to one of those that were checked. Redirects are not followed, and of the answer only the status
counts. No proxy of the environment is used: it would resolve the name itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Literal, NamedTuple

import httpx2

from coordinator import __version__
from coordinator.client.retries import retry_after
from coordinator.connect_failures import cause_of
from coordinator.identity.keys.ssrf import Refused, ResolvedUrl, SsrfGuard

TOTAL_SECONDS = 15.0
"""From resolving the name to the status of the answer."""
CONNECT_SECONDS = 5.0
"""For all addresses of a host together."""
REST_SECONDS = 1.0
"""For the rest of the answer, which is read only so that the connection can be used again."""
MOST_BYTES = 4_096
"""Of the rest of the answer."""
_IDLE_SECONDS = 60.0
_GONE = 410
_SLOW_DOWN = (429, 502, 503, 504)
"""Statuses whose ``Retry-After`` counts."""

Kind = Literal["delivered", "status", "redirect", "gone", "timeout", "unreachable", "refused"]
"""How an attempt ended. refused: the address must not be connected to."""


class SendOutcome(NamedTuple):
    """How an attempt ended."""

    kind: Kind
    error: str = ""
    """What went wrong, without any part of the URL."""
    status: int = 0
    retry_after: float = 0.0
    """Seconds for which the receiver asks not to be sent anything."""


class Certificates:
    """The trusted certificates: the system's, or those of SSL_CERT_FILE. Read once, in a thread."""

    def __init__(self) -> None:
        self._reading: asyncio.Future[ssl.SSLContext] | None = None

    async def context(self) -> ssl.SSLContext:
        done = self._reading is not None and self._reading.done()
        if self._reading is None or (done and (self._reading.cancelled() or self._reading.exception())):
            self._reading = asyncio.ensure_future(asyncio.to_thread(httpx2.create_ssl_context))
        return await asyncio.shield(self._reading)


class Sender:
    """Sends to one receiver, and keeps its connection. A shared client would use a connection to an address for every
    name that has it, although the certificate was checked for another name.
    """

    def __init__(self, url: str, allow_private: bool, certificates: Certificates) -> None:
        self._url = url
        self._guard = SsrfGuard(allow_private=allow_private)
        self._certificates = certificates
        self._client: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def send(self, body: bytes, headers: Mapping[str, str]) -> SendOutcome:
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                response = await self._request(body, headers)
        except TimeoutError:
            return SendOutcome("timeout", f"no answer within {TOTAL_SECONDS:.0f} seconds")
        except Refused as refused:
            return SendOutcome("refused", f"the receiver {refused}")
        except httpx2.ConnectTimeout:
            return SendOutcome("timeout", f"cannot be connected to within {CONNECT_SECONDS:.0f} seconds")
        except httpx2.TimeoutException:
            return SendOutcome("timeout", "the receiver stopped answering")
        except httpx2.ConnectError as error:
            return SendOutcome("unreachable", f"cannot be connected to ({cause_of(error)[0]})")
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError, ValueError) as error:
            return SendOutcome("unreachable", f"the connection broke off ({type(error).__name__})")
        await _finish(response)
        return _outcome(response)

    async def _request(self, body: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        places = await self._guard.resolve(self._url)
        client = await self._opened()
        for place in places[:-1]:
            with contextlib.suppress(httpx2.ConnectError, httpx2.ConnectTimeout):  # of several addresses one is enough
                return await client.send(self._made(client, place, body, headers, len(places)), stream=True)
        return await client.send(self._made(client, places[-1], body, headers, len(places)), stream=True)

    def _made(
        self, client: httpx2.AsyncClient, place: ResolvedUrl, body: bytes, headers: Mapping[str, str], places: int
    ) -> httpx2.Request:
        return client.build_request(
            "POST",
            place.url,
            content=body,
            headers={**headers, **place.headers},
            extensions=dict(place.extensions),
            timeout=httpx2.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS / places),
        )

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            # Without TLS the certificates are not needed.
            secure = self._url.startswith("https:")
            verify = await self._certificates.context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._client = httpx2.AsyncClient(
                verify=verify,
                trust_env=False,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=2, keepalive_expiry=_IDLE_SECONDS),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={
                    "accept": "*/*",
                    "accept-encoding": "identity",
                    "content-type": "application/json",
                    "user-agent": f"fleet-coordinator/{__version__}",
                },
            )
        return self._client


async def _finish(response: httpx2.Response) -> None:
    """Reads the rest of a short answer, and closes the connection of any other."""
    read = 0
    with contextlib.suppress(httpx2.HTTPError, OSError, TimeoutError):  # the status has come, and is what counts
        async with contextlib.aclosing(response), asyncio.timeout(REST_SECONDS):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > MOST_BYTES:
                    return


def _outcome(response: httpx2.Response) -> SendOutcome:
    status = response.status_code
    if response.is_success:
        return SendOutcome("delivered", status=status)
    wait = retry_after(response.headers.get("retry-after"), time.time()) if status in _SLOW_DOWN else 0.0
    if status == _GONE:
        return SendOutcome("gone", "the receiver answered that it is gone (410)", status)
    if response.is_redirect:
        return SendOutcome("redirect", f"the receiver redirects ({status}), which is not followed", status)
    return SendOutcome("status", f"the receiver answered with status {status}", status, wait)
