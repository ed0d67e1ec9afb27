"""A store whose calls pass the fence of one copy, so that the copy can be audited before anybody else sees it."""

from __future__ import annotations

from typing import Any, TypeVar

from coordinator.store import Script, Store, keys
from coordinator.store.link.slot_map import tag_of
from coordinator.store.scripts import decoded
from coordinator.store.store import Asked

R = TypeVar("R")


class PassingStore(Store):
    """Scripts of projects run with the id of the copy as a further argument."""

    identity_of_copy = ""

    async def run(self, script: Script[R], project: str, *args: str | bytes | int, asked: Asked | None = None) -> R:
        """As ``Store.run``, for scripts that read or settle debts."""
        if script.scope != "project":
            return await super().run(script, project, *args, asked=asked)
        prefix = keys.project_prefix(project)
        reply: Any = await self.command_of(project, "FCALL", script.function, 1, prefix, *args, self.identity_of_copy)
        result: R = reply if script.decode is None else decoded(script.decode, reply)
        return result

    async def command(self, *words: str | bytes | int) -> Any:
        """As ``Store.command``, for commands that read."""
        return await self.command_of(tag_of(words), *words)
