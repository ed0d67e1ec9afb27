"""A client that does not hear some answers."""

from __future__ import annotations

from typing import Any

from coordinator.client import Fleet, Unavailable
from coordinator.client.core import Core


class Deaf(Fleet):
    """Does not hear the next answers of a tool: the call is made, and fails as if the fleet were gone."""

    deaf = ""
    unmade = False
    """Whether the call is not even made."""

    def answers(self, call: Any) -> Any:
        """``Core.call`` as this one hears it."""

        async def heard(core: Core, tool: str, *args: Any, **more: Any) -> Any:
            unheard = core.agent == self.agent and self.deaf == tool
            if unheard:
                self.deaf = ""
            answer = {} if unheard and self.unmade else await call(core, tool, *args, **more)
            if unheard:
                raise Unavailable("unavailable", "the answer was not heard")
            return answer

        return heard
