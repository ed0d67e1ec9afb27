"""The messages between the demo and its agent processes: JSON lines over pipes."""

from __future__ import annotations

import msgspec

from coordinator.cli.demo.agent import Behaviour, Crash


class Orders(msgspec.Struct, frozen=True):
    """The one line that an agent process reads; the end of its stdin then tells it to stop."""

    url: str
    first: int
    """Number of its first agent."""
    agents: int
    seed: str
    behaviour: Behaviour


class Progress(msgspec.Struct):
    """What happened in an agent process since it last told."""

    latencies: dict[str, list[float]] = {}
    """Tool -> milliseconds of each answered attempt."""
    retries: dict[str, int] = {}
    """Reason -> repeated attempts."""
    counts: dict[str, int] = {}
    """What agents did."""
    crashes: list[Crash] = []
    failures: list[str] = []
    """Agents that ended because something was not as promised; all so far."""
    over: bool = False
    """Whether this is the last."""


def encoded(message: Orders | Progress) -> bytes:
    """A message as one line."""
    return msgspec.json.encode(message) + b"\n"
