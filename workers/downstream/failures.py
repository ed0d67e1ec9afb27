"""How calls of downstream servers fail."""

from __future__ import annotations


class ConnectionFailed(Exception):
    """A server cannot be reached, or was lost during the call. The text is a sentence without its address.

    Attributes:
        sent: whether the call may have reached the server.
        wait: how many seconds the server asks to wait before the next call; None: it does not limit the rate of calls.
    """

    def __init__(self, message: str, sent: bool = False, wait: float | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.wait = wait


class CallRefused(Exception):
    """A server answered a call with a protocol error, such as an unknown tool or wrong arguments; or with something
    that cannot be used.

    Attributes:
        carried_out: whether it was the latter: the call had its effect.
    """

    def __init__(self, message: str, carried_out: bool = False) -> None:
        super().__init__(message)
        self.carried_out = carried_out


class NoSuchMethod(CallRefused):
    """It does not know what it was asked for, or not in this form."""
