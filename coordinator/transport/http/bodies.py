"""Reads the whole body of a request, up to a size limit. (``protocol`` limits the time.)

A body over the limit is read to its end and dropped, as far as it is not far larger: most clients read no answer before
they have sent everything, and if the connection closes before that, they see a reset instead of the refusal.
"""

from __future__ import annotations

from coordinator.transport.http.replies import ClientDisconnected, Message, Receive, Refused

_DROPPED = 4
"""How many times the limit is read of a body that is refused."""


class Bodies:
    """Reads the bodies of one process.

    Args:
        limit: bytes of the largest body.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit

    async def read(self, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            Refused: 413 if it is too large; the connection closes.
            ClientDisconnected: the client has disconnected.
        """
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._rest(body, receive)
        if len(body) > self.limit:
            raise self._too_large()
        return body

    async def refuse(self, announced: int, receive: Receive, *, asks: bool) -> None:
        """Refuses a body whose length is announced to be over the limit, if that is so.

        Args:
            asks: whether the client waits for leave to send it (``Expect``).

        Raises:
            Refused: 413; the connection closes.
        """
        if announced <= self.limit:
            return
        if not asks and announced <= _DROPPED * self.limit:
            await self._drop(announced, receive)
        raise self._too_large()

    async def _drop(self, left: int, receive: Receive) -> None:
        """Reads up to so many bytes, or to the end of the body."""
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            if not message.get("more_body"):
                return

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than {self.limit} bytes", [(b"connection", b"close")])

    async def _rest(self, first: bytes, receive: Receive) -> bytes:
        body = bytearray(first)
        more = True
        while more:
            if len(body) > self.limit:
                await self._drop((_DROPPED - 1) * self.limit, receive)
                raise self._too_large()
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that replays a body, then continues with ``receive``."""
    pending = True

    async def again() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
