"""Clients of ``subscriptions/listen``, over HTTP without an SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2

from tests.feed.rig import Front, Json
from tests.transport.rig import meta, modern
from tests.transport.rounds import CAPABILITIES, TASKS

ID_KEY = "io.modelcontextprotocol/subscriptionId"
ALL = "items,flows,gateway"
KNOWS_TASKS: Json = {**meta(), CAPABILITIES: TASKS}
"""``_meta`` of a request."""


class Subscription:
    """An open stream."""

    def __init__(self, response: httpx2.Response, request_id: str) -> None:
        self._lines = response.aiter_lines()
        self._id = request_id
        self._before: set[str] = set()
        self.acknowledged: Json = {}

    async def next(self, seconds: float = 60.0) -> Json:
        """The next message. Raises StopAsyncIteration at the end of the stream."""
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if line.startswith("data: "):
                    message: Json = json.loads(line[6:])
                    if "method" in message:
                        assert message["params"]["_meta"] == {ID_KEY: self._id}
                    else:
                        assert message["id"] == self._id
                    return message
        raise StopAsyncIteration

    async def told(self, seconds: float = 60.0) -> str:
        """The next notification: the URI of a resource, or the list that has changed."""
        message = await self.next(seconds)
        method = message["method"].removeprefix("notifications/")
        return str(message["params"]["uri"] if method == "resources/updated" else method)

    async def tells(self, *expected: str) -> None:
        """Waits until each of these was told. Others are a failure, unless they were told before: several changes may
        be told twice."""
        left = set(expected)
        while left:
            found = await self.told()
            assert found in expected or found in self._before, found
            left.discard(found)
        self._before.update(expected)

    async def quiet_until(self, last: str) -> list[str]:
        """What is told up to the first notification of ``last``."""
        found = []
        while (one := await self.told()) != last:
            found.append(one)
        return found

    async def rest(self) -> list[Json]:
        """The messages until the end."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except StopAsyncIteration:
                return found


def request(uris: Sequence[str] = (), request_id: str = "s1", **lists: Any) -> tuple[dict[str, str], bytes]:
    """Headers and body of a request of a client that knows tasks. Lists as in its ``notifications``."""
    wanted: Json = {**lists, **({"resourceSubscriptions": list(uris)} if uris else {})}
    head, body = modern("subscriptions/listen", {"notifications": wanted, "_meta": KNOWS_TASKS}, request_id)
    return dict(head), body


@contextlib.asynccontextmanager
async def subscribed(
    front: Front,
    project: str,
    uris: Sequence[str] = (),
    toolsets: str = ALL,
    headers: dict[str, str] | None = None,
    request_id: str = "s1",
    **lists: Any,
) -> AsyncIterator[Subscription]:
    """A stream after its acknowledgment."""
    head, body = request(uris, request_id, **lists)
    path = f"/p/{project}/mcp/{toolsets}"
    async with front.http.stream("POST", path, content=body, headers={**head, **(headers or {})}) as response:
        if not response.headers["content-type"].startswith("text/event-stream"):
            raise AssertionError((await response.aread()).decode())
        stream = Subscription(response, request_id)
        first = await stream.next()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        stream.acknowledged = first["params"]["notifications"]
        yield stream


async def refused(
    front: Front, project: str, uris: Sequence[str] = (), headers: dict[str, str] | None = None, **lists: Any
) -> tuple[Json, Any]:
    """The error that answers a request, and the headers."""
    head, body = request(uris, **lists)
    response = await front.http.post(f"/p/{project}/mcp/{ALL}", content=body, headers={**head, **(headers or {})})
    error: Json = response.json()["error"]
    return error, response.headers
