"""The answers of the console, and the headers that they carry."""

from __future__ import annotations

import gzip
from typing import NamedTuple

from coordinator.transport.http.compression import SMALLEST, takes_gzip
from coordinator.transport.http.media import HTML, JSON
from coordinator.transport.http.replies import Header, Send, reply

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types fleet"
)
"""Agents write much of the text that people read here: nothing in it may ever run."""
HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""What all answers below /console carry."""
_NO_STORE: Header = (b"cache-control", b"no-store")


class PageAnswer(NamedTuple):
    status: int
    type: bytes
    body: bytes
    headers: tuple[Header, ...] = (_NO_STORE,)
    compressed: bytes = b""
    """The body compressed by gzip, if that is known."""


def page(html: str, status: int = 200, *headers: Header) -> PageAnswer:
    return PageAnswer(status, HTML + b"; charset=utf-8", html.encode(), (_NO_STORE, *headers))


def data(body: bytes, status: int = 200, *headers: Header) -> PageAnswer:
    return PageAnswer(status, JSON, body, (_NO_STORE, *headers))


def redirect(path: str, *headers: Header) -> PageAnswer:
    """To another page; ``path`` is a path of the console, or an address made by us."""
    return PageAnswer(303, b"", b"", (_NO_STORE, (b"location", path.encode()), *headers))


async def send_answer(send: Send, answer: PageAnswer, request: list[Header]) -> None:
    """Sends an answer to a request with these headers, compressed if that is worth while."""
    body, headers = answer.body, [*answer.headers]
    if len(body) >= SMALLEST:
        headers.append((b"vary", b"accept-encoding"))
        if takes_gzip(request):
            body = answer.compressed or gzip.compress(body, compresslevel=4, mtime=0)
            headers.append((b"content-encoding", b"gzip"))
    await reply(send, answer.status, body, answer.type, headers)
