"""Reading a request's body: whole, bounded in size and in time."""

from __future__ import annotations

import asyncio

from coordinator.transport.deadlines import Deadlines
from coordinator.transport.replies import Gone, Header, Message, Receive, Refused

BODY_SECONDS = 30.0
"""How long a client may take to send a body."""

_CLOSE: list[Header] = [(b"connection", b"close")]


class Bodies:
    """Reads the bodies of one process.

    Args:
        limit: bytes of the largest body.
    """

    def __init__(self, limit: int, deadlines: Deadlines, seconds: float = BODY_SECONDS) -> None:
        self.limit = limit
        self._deadlines = deadlines
        self._seconds = seconds

    async def read(self, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            Refused: 413 if it is too large, 408 if it does not arrive in time; the connection closes.
            Gone: the client left.
        """
        task = self._deadlines.start(self._seconds)
        try:
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body = await self._rest(body, receive)
            if len(body) > self.limit:
                raise self.too_large()
            return body
        except asyncio.CancelledError:
            if not self._deadlines.expired(task):
                raise
            raise Refused(408, f"the body did not arrive within {self._seconds:g} s", _CLOSE) from None
        finally:
            self._deadlines.stop(task)

    def too_large(self) -> Refused:
        """The refusal of a body over the limit."""
        return Refused(413, f"the body is larger than {self.limit} bytes", _CLOSE)

    async def _rest(self, first: bytes, receive: Receive) -> bytes:
        body = bytearray(first)
        more = True
        while more:
            if len(body) > self.limit:
                raise self.too_large()
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body again, then waits for the client to leave as before."""
    pending = True

    async def again() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
