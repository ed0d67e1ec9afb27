"""The client's ``call`` on a store of the test, without HTTP; and an import with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from coordinator.client import Fleet
from coordinator.client.errors import error_of
from coordinator.client.tools import signed
from coordinator.errors import ToolFailure
from coordinator.interchange.importing import Import, ImportReport
from coordinator.interchange.mapping import Mapping_, apply_mapping
from coordinator.interchange.model import ImportSource, State
from coordinator.interchange.shaping import shape
from coordinator.store import Store
from tests.items.client import Client


class Killed(BaseException):
    """The end of a process."""


class Direct:
    """A fleet for one agent.

    Args:
        fails_after: after so many calls that change something, the rest fail, as if the process had been killed.
    """

    def __init__(self, store: Store, project: str, fails_after: int | None = None) -> None:
        self.agent = "importer"
        self.tools = Client(store, project)
        self.left = fails_after

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, agent: str | None = None, seconds: float = 0
    ) -> dict[str, Any]:
        if tool.startswith(("manage", "advance")) and self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed
        given = signed(tool, arguments, {"id": agent or self.agent, "kind": "user"})
        try:
            answer: dict[str, Any] = await self.tools(tool, **given)
        except ToolFailure as failure:
            raise error_of(failure.code, failure.message) from None
        return answer

    @property
    def fleet(self) -> Fleet:
        return cast(Fleet, self)


async def imported(
    direct: Direct, source: ImportSource, states: Mapping[str, State], name: str = "test", **options: Any
) -> ImportReport:
    """Imports what was read."""
    apply_mapping(source, states, Mapping_(), None)
    shape(source)
    return await Import(direct.fleet, name, **options).run(source.records)
