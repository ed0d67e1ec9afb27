"""How calls of downstream servers fail."""

from __future__ import annotations


class ConnectionFailed(Exception):
    """A server cannot be reached, or was lost during the call. The text is a sentence without its address.

    Attributes:
        sent: whether the call may have reached the server.
    """

    def __init__(self, message: str, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class CallRefused(Exception):
    """A server answered a call with a protocol error, such as an unknown tool or wrong arguments."""
