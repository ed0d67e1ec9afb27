"""Limits the size of answers over HTTP: the client library would read them whole, however large."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID

MAX_ANSWER = 16 * 1024 * 1024
"""Most bytes of an answer, over HTTP or stdio."""


class _Answer(httpx2.AsyncByteStream):
    """The body of an answer. It fails beyond the limit, and if it is compressed: its size is not known then."""

    def __init__(self, response: httpx2.Response) -> None:
        self._inner: Any = response.stream
        self._packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("it is compressed, which was not asked for")
        left = MAX_ANSWER
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"it has more than {MAX_ANSWER} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def bound_answer(response: httpx2.Response) -> None:
    """A response hook of httpx2: limits an answer that the client library would read whole."""
    if response.status_code == 404 and MCP_SESSION_ID in response.request.headers:
        # This is how servers say that they have forgotten the session. Without the header the library uses the status,
        # not the body.
        response.headers.pop("content-type", None)
    if response.headers.get("content-type", "").lower().startswith("application/json"):
        response.stream = _Answer(response)
