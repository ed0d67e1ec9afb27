"""Applications for people that a front-end serves below a path of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from coordinator.transport.http.replies import Header, Receive, Scope, Send


class Mounted(Protocol):
    """Such an application."""

    @property
    def headers(self) -> Sequence[Header]:
        """What all answers below its path carry, also those that it does not give itself."""

    async def serve(self, scope: Scope, receive: Receive, send: Send, head: Mapping[bytes, bytes]) -> None:
        """Answers a request whose head was checked. Raises Refused, ClientDisconnected."""

    def hold(self, held: bool, seconds: float) -> None:
        """Ends what listens, spread over some seconds, because this process takes no new work; or serves it again."""

    async def stop(self, deadline: float = 0.0) -> None:
        """Ends what runs in the background."""


class Mounts(dict[str, Mounted]):
    """Applications by path, such as ``/console``."""

    def at(self, path: str) -> Mounted | None:
        """The application that serves a path; None: none does."""
        return self.get("/" + path[1:].partition("/")[0])
