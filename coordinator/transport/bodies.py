"""Reads the whole body of a request, up to a size limit. (``protocol`` limits the time.)"""

from __future__ import annotations

from coordinator.transport.replies import ClientDisconnected, Message, Receive, Refused


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
            raise self.too_large()
        return body

    def too_large(self) -> Refused:
        """The refusal of a body over the limit."""
        return Refused(413, f"the body is larger than {self.limit} bytes", [(b"connection", b"close")])

    async def _rest(self, first: bytes, receive: Receive) -> bytes:
        body = bytearray(first)
        more = True
        while more:
            if len(body) > self.limit:
                raise self.too_large()
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
