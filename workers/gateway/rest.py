"""Makes HTTP requests to the host of a connection.

Redirects are not followed, private addresses are refused unless allowed, and the size of answers is limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import string
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from coordinator import __version__
from coordinator.connect_failures import cause_of
from coordinator.identity.keys.ssrf import Refused, ResolvedUrl, SsrfGuard
from coordinator.settings.sections.connections import Connection, Interpolator, hidden, hidden_in
from coordinator.steps.model import Outcome, Success
from coordinator.toolsets.gateway.rules.calls import RestCall
from workers.connections.http_statuses import seconds_to_wait, status_problem
from workers.gateway.failures import misconfigured, permanent, rate_limited, timeout, transient, unreachable

MAX_BODY = 1024 * 1024
"""Most bytes of an answer that are kept."""
_FOR_ALL = (401, 403)
"""Statuses that do not depend on what a request asks for."""
KEY = "idempotency-key"

CONNECT_SECONDS = 10.0
"""How long connecting to one address may take."""


class RestClient:
    """Makes the requests of one worker.

    Requests share nothing but connections, and only with requests to the same host. Each host has a client of its own,
    because requests go to addresses: a shared client would reuse a connection to an address for every name that has
    it, although the certificate was checked for another name.
    """

    def __init__(self) -> None:
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._opening: asyncio.Future[ssl.SSLContext] | None = None
        self._guard = SsrfGuard()

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def request(self, call: RestCall, connection: Connection, environment: Mapping[str, str]) -> Outcome:
        """Makes one request.

        Args:
            connection: a connection of kind rest.
            environment: the values of ``${NAME}``.
        """
        filled = Interpolator(environment)
        try:
            base = filled(connection.base_url).rstrip("/")
            # Header names ignore case, and no header may be sent twice.
            headers = {name.lower(): filled(value) for name, value in connection.headers.items()}
        except KeyError as missing:
            return misconfigured(f"the environment variable {missing.args[0]} is not set")
        headers |= {name.lower(): value for name, value in call.headers.items()}
        call = msgspec.structs.replace(call, secrets=call.secrets | filled.secrets)
        if problem := _problem(base, connection):
            return misconfigured(problem)
        if not _same_host(base, call.path):
            return permanent("the path must not change the host")
        if call.body is not None:
            headers.setdefault("content-type", "application/json")
        if call.key:
            # Names of transitions are in it, and a header takes ASCII only.
            headers[KEY] = quote(call.key, safe=string.punctuation)
        try:
            places = await self._places(base + call.path, connection)
        except Refused as refused:
            return unreachable(f"the server {refused}")
        return await self._exchange(base, call, connection, places, headers)

    async def _exchange(
        self, base: str, call: RestCall, connection: Connection, places: list[ResolvedUrl], headers: Mapping[str, str]
    ) -> Outcome:
        """Sends the request and returns its outcome, whatever goes wrong."""
        try:
            return await self._send(await self._opened(base), call, connection, places, headers)
        except httpx2.ConnectTimeout:
            return unreachable("the server cannot be connected to in time")
        except httpx2.TimeoutException:
            return timeout("the server stopped answering")
        except httpx2.ConnectError as error:
            return unreachable(f"the server cannot be connected to ({cause_of(error)[0]})")
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, ValueError) as error:
            return permanent(f"the request cannot be made: {type(error).__name__}")
        except httpx2.DecodingError:
            return permanent("the server's answer is not encoded as it says")
        except (httpx2.HTTPError, ssl.SSLError, OSError) as error:
            return unreachable(f"the connection broke off: {type(error).__name__}")

    async def _places(self, url: str, connection: Connection) -> list[ResolvedUrl]:
        """The addresses that a request may go to.

        Raises:
            Refused: the host has none that is allowed.
        """
        if connection.allow_private:
            return [ResolvedUrl(url, {}, {})]
        return await self._guard.resolve(url)

    async def _send(
        self,
        client: httpx2.AsyncClient,
        call: RestCall,
        connection: Connection,
        places: list[ResolvedUrl],
        headers: Mapping[str, str],
    ) -> Outcome:
        """Sends the request to the first address that can be connected to."""
        for place in places:
            request = client.build_request(
                call.method,
                place.url,
                params=list(call.query) or None,
                headers={**headers, **place.headers},
                content=call.body,
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS / len(places)),
                extensions=dict(place.extensions),
            )
            try:
                response = await client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if place is places[-1]:
                    raise
                continue
            async with contextlib.aclosing(response):
                return await _outcome(response, call, connection)
        return unreachable("the server has no address")

    async def _opened(self, base: str) -> httpx2.AsyncClient:
        if self._opening is None:
            # In a thread, and once: reading the certificates takes a while.
            self._opening = asyncio.ensure_future(asyncio.to_thread(httpx2.create_ssl_context))
        try:
            context = await asyncio.shield(self._opening)
        except OSError:
            # Not remembered: the certificates may be readable the next time.
            self._opening = None
            raise
        host = urlsplit(base).netloc.lower()
        client = self._clients.get(host)
        if client is None:
            client = self._clients[host] = httpx2.AsyncClient(
                verify=context,
                trust_env=False,
                follow_redirects=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                headers={"user-agent": f"fleet-coordinator/{__version__}", "accept": "application/json, */*"},
            )
        return client


def _problem(base: str, connection: Connection) -> str:
    """Why no request may go to the server; empty if they may."""
    try:
        stated = urlsplit(base)
        _ = stated.port
    except ValueError:
        return "the connection's baseUrl is not a URL"
    if stated.scheme not in ("http", "https") or not stated.hostname or stated.username is not None:
        return "the connection's baseUrl must be an http(s) URL without user and password"
    hosts = {host.lower() for host in connection.allow_hosts}
    named = {stated.hostname.lower(), stated.netloc.lower()}
    if hosts and not hosts & named:
        return "the host of baseUrl is not among allowHosts"
    return ""


def _same_host(base: str, path: str) -> bool:
    try:
        stated, made = urlsplit(base), urlsplit(base + path)
        return (made.scheme, made.hostname, made.port) == (stated.scheme, stated.hostname, stated.port)
    except ValueError:
        return False


async def _outcome(response: httpx2.Response, call: RestCall, connection: Connection) -> Outcome:
    """The outcome of a request. The call's secrets are hidden in what the server says."""
    status, wait_ms = response.status_code, round(seconds_to_wait(response) * 1000)
    if status in (408, 504):
        return timeout(f"the server {status_problem(response, connection)}")
    if status == 429:
        return rate_limited(f"the server {status_problem(response, connection)}", wait_ms)
    if status >= 500:
        return transient(f"the server {status_problem(response, connection)}", wait_ms)
    body, whole = await _body(response)
    if status >= 300:
        said = _said(body, call.secrets) if status >= 400 else ""
        problem = f"the server {status_problem(response, connection, said)}"
        return misconfigured(problem) if status in _FOR_ALL else permanent(problem)
    if whole:
        return Success({"status": status, "body": hidden_in(body, call.secrets)})
    text = hidden(body, call.secrets, cut=True) + "\n[truncated]"
    return Success({"status": status, "body": text, "truncated": True})


async def _body(response: httpx2.Response) -> tuple[Any, bool]:
    """Returns the body (as JSON if possible, else as text; None if it is empty), and whether it is complete."""
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk[: MAX_BODY + 1 - len(data)]
        if len(data) > MAX_BODY:
            break
    if not data:
        return None, True
    dropped = len(data) > MAX_BODY
    if not dropped:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(data), True
    return _decoded(bytes(data[:MAX_BODY]), response.encoding or "utf-8"), not dropped


def _decoded(data: bytes, encoding: str) -> str:
    """Decodes a text in the encoding that the server states, or in UTF-8 if that is not possible."""
    try:
        return data.decode(encoding, errors="replace")
    except (LookupError, UnicodeError):
        # Python does not know every encoding, some are not for text, and some do not support errors="replace".
        return data.decode(errors="replace")


def _said(body: Any, secrets: AbstractSet[str]) -> str:
    """The server's message about an error, if the body has it in one of the usual places."""
    if isinstance(body, dict):
        for key in ("message", "error", "detail", "title"):
            if isinstance(body.get(key), str):
                return hidden(body[key], secrets)[:500]
    return hidden(body, secrets) if isinstance(body, str) and len(body) <= 200 else ""
