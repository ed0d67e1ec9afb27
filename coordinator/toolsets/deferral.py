"""Calls that go on after their answer: a handler returns ``Pending`` in place of its result, which is read later.

The transport makes a task of it (the MCP extension ``io.modelcontextprotocol/tasks``): an id that contains the state,
sealed. So a task is no record of its own. Reading it means reading what the call was about, which any process can do.
"""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.toolsets.questions import Question

GRACE_SECONDS = 2.0
"""How long a call that may become a task waits for its result first."""
POLL_MS = 1_000
"""How often clients should ask for a result."""
LATER_POLL_MS = 5_000
"""The same, after ``LATER_MS``."""
LATER_MS = 60_000
DAY_MS = 86_400_000
"""For how long the result of a wait can be read."""
LONGEST_WAIT_MS = 50_000
"""The most that a read can be asked to wait."""
LONGEST_STATE = 2_048
"""The most bytes of a state, in MessagePack: the id of a task goes into a header."""


def poll_ms(elapsed_ms: int) -> int:
    """How often clients should ask for a result of a task that was created so long ago."""
    return POLL_MS if elapsed_ms < LATER_MS else LATER_POLL_MS


def lasts_ms(wait_ms: int) -> int:
    """For how long a wait goes on that has become a task: as long as its call asked to wait; for a day if that was as
    long as calls may wait at all, because such a caller would only ask again."""
    return DAY_MS if wait_ms >= LONGEST_WAIT_MS else wait_ms


def fits(state: msgspec.Struct) -> bool:
    """Whether a task can consist of this state."""
    return len(msgspec.msgpack.encode(state)) <= LONGEST_STATE


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """What a call has begun is not over; only for calls with ``Call.can_defer``."""

    state: msgspec.Struct
    """A ``Deferral.state`` (``tool``): what ``Deferral.read`` needs to find the result."""
    ttl_ms: int
    """For how long the result can be read, from the beginning of the call."""
    message: str
    """What is going on, in a few words."""
    otherwise: Any
    """The result of the call if it cannot become a task after all."""
    questions: tuple[Question, ...] = ()
    """Without their answers it does not go on; their keys differ."""


class Stopped(msgspec.Struct, frozen=True):
    """What a call has begun was stopped by its caller, so there is no result."""
