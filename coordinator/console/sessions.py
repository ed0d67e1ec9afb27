"""Who a visitor is: signed in by a cookie, or anonymous where the fleet asks nobody for a token."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.console.answers import Answer, redirect
from coordinator.console.viewer import Viewer
from coordinator.transport.authorization import Authorization


class Sessions:
    """The sessions of visitors; none is kept in the process."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    async def viewer(self, head: Mapping[bytes, bytes]) -> Viewer | None:
        """The visitor behind a request; None: they have to sign in."""
        return Viewer() if self._authorization.anonymous else None

    def ask(self, path: str, query: bytes) -> Answer:
        """The answer to a visitor who has to sign in."""
        return redirect("/console/signin")
