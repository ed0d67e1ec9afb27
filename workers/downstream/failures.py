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


class SessionForgotten(ConnectionFailed):
    """The session has ended, or the server does not know it any more. The call was not carried out."""


class StateLost(Exception):
    """What the caller has done so far on a server that keeps states is gone. The call was not made."""


class NoStateFree(Exception):
    """Every state that the server may keep at a time is in use. The call was not made.

    Attributes:
        after_ms: when to make it again.
    """

    after_ms = 1_000


class CallRefused(Exception):
    """A server answered a call with a protocol error, such as an unknown tool or wrong arguments; or nothing will come
    of a retry for another reason.

    Attributes:
        carried_out: whether the call had its effect.
    """

    carried_out = False


class AnswerUnusable(CallRefused):
    """A server carried a call out, but its answer cannot be used. The text says both.

    Attributes:
        why: what is wrong with the answer.
    """

    carried_out = True

    def __init__(self, why: str) -> None:
        super().__init__(f"the call was carried out, but its answer cannot be used: {why}")
        self.why = why


class NoSuchMethod(CallRefused):
    """It does not know what it was asked for, or not in this form."""


UNREAD = "fleet-coordinator/unread"
"""The data of an error that stands for an answer that cannot be read; its message says why."""
