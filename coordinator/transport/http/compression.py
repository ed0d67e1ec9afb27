"""Compresses lists of tools and resources for clients that accept it (RFC 9110, 12.5.3).

They are long and repetitive, and every client reads them at its start. Answers to calls are not compressed: almost all
of them are short.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache

from coordinator.transport.http.replies import Header, Message, Send

COMPRESSED = frozenset(("tools/list", "resources/list", "resources/read"))
"""The methods whose answers are compressed."""
SMALLEST = 1_000
"""Answers with fewer bytes are not compressed."""
_REMEMBERED = 16
_NONE = re.compile(rb"q\s*=\s*0(\.0*)?", re.IGNORECASE)


def takes_gzip(headers: list[Header]) -> bool:
    """Whether a client accepts gzip; without ``Accept-Encoding`` it does not."""
    accepted = b",".join(value for name, value in headers if name == b"accept-encoding").lower()
    codings = {}
    for entry in accepted.split(b","):
        coding, *parameters = (part.strip() for part in entry.split(b";"))
        codings[coding] = not any(_NONE.fullmatch(parameter) for parameter in parameters)
    return next((codings[name] for name in (b"gzip", b"x-gzip", b"*") if name in codings), False)


def compressing(send: Send, headers: list[Header]) -> Send:
    """Compresses an answer if it is sent in one piece and the client accepts gzip.

    Args:
        headers: of the request.
    """
    accepted = takes_gzip(headers)
    begun: Message | None = None

    async def sending(message: Message) -> None:
        nonlocal begun
        if message["type"] == "http.response.start":
            begun = message
            return
        if begun is not None:
            head, body = [*begun.get("headers", ()), (b"vary", b"accept-encoding")], message.get("body", b"")
            if accepted and len(body) >= SMALLEST and not message.get("more_body"):
                body = _compressed(body)
                head = [header for header in head if header[0].lower() != b"content-length"]
                head += [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
                message = {**message, "body": body}
            await send({**begun, "headers": head})
            begun = None
        await send(message)

    return sending


@lru_cache(maxsize=_REMEMBERED)
def _compressed(body: bytes) -> bytes:
    # Clients start with the same few ids, so whole answers repeat.
    return gzip.compress(body, compresslevel=6, mtime=0)
