"""Pairs of stores for tests of copies of projects, with a fleet on each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from coordinator.errors import ToolFailure
from coordinator.projects import copying, transfer
from coordinator.projects.copying import Copy, End, turn
from coordinator.projects.passing import PassingStore
from coordinator.settings.sections.workflows import Signing
from coordinator.steps import queue_place
from coordinator.store import Store, following, keys
from coordinator.store.checks import key_space
from coordinator.store.fences import copies
from coordinator.store.fences.copies import Fencing
from coordinator.store.functions import present_libraries
from coordinator.store.libraries.build import FENCED_PREFIX
from tests.items.client import Client

S = TypeVar("S", bound=Store)


def _hasten(patch: pytest.MonkeyPatch) -> None:
    """Shortens what copies wait for: no function is loaded by others here, and nobody is stopped."""
    patch.setattr(copies, "GRACE_SECONDS", 0.01)
    patch.setattr(following, "LOOK_SECONDS", 0.05)
    patch.setattr(copying, "HEARD_SECONDS", 0.2)


class Pair:
    """A source and a target, and a fleet on each."""

    def __init__(self, source: PassingStore, target: PassingStore, here: Store, there: Store, project: str) -> None:
        self.source, self.target, self.project = source, target, project
        self.here, self.there = Client(here, project), Client(there, project)
        self.said: list[str] = []

    @property
    def ends(self) -> tuple[End, End]:
        return End(Fencing(self.source), "redis://source"), End(Fencing(self.target), "redis://target")

    async def copy(self, deletes: bool = False, signing: Signing | None = None) -> str:
        """A command on its own."""
        async with turn(*self.ends):
            return await Copy(*self.ends, self.target, self.project, deletes, self.said.append, signing).run()

    def turned(self) -> Pair:
        """The way back."""
        return Pair(self.target, self.source, self.there.store, self.here.store, self.project)

    async def names(self, store: Store) -> set[bytes]:
        return await transfer.Keys(Fencing(store), self.project, "").names()

    async def serves(self, tools: Client) -> bool:
        """Whether a fleet takes new items."""
        try:
            await tools.add()
        except ToolFailure as failure:
            if failure.code != "project_away":
                raise
            return False
        return True

    async def has(self, tools: Client, item: str) -> bool:
        """Whether a fleet serves an item."""
        try:
            await tools.get(item)
        except ToolFailure as failure:
            if failure.code not in ("project_away", "RESOURCE_NOT_FOUND"):
                raise
            return False
        return True

    async def clean(self) -> None:
        for store in (self.source, self.target):
            project = self.project
            await transfer.withdraw(store, project)
            others = (one.key(project) for one in (keys.fence, keys.marker, keys.project_keys))
            gone = [*await self.names(store), *others]
            await store.command_of(project, "DEL", *gone)
            await Fencing(store).note(project, None)
            await Fencing(store).end()
            await queue_place.note(store, store)
            assert not any(name.startswith(FENCED_PREFIX) for name in await present_libraries(store.link()))


Make = Callable[[str, str], Awaitable[Pair]]


@asynccontextmanager
async def pairs(urls: Mapping[str, str]) -> AsyncIterator[Make]:
    """Makes pairs of these stores, by their names, each with a project of its own."""
    made, stores = list[Pair](), list[Store]()

    async def opened(store: S) -> S:
        """As processes have it."""
        stores.append(store)
        await store.open()
        await key_space.settle(store)
        return store

    async def make(source: str, target: str) -> Pair:
        one, two = [await opened(PassingStore(urls[name], timeout_ms=10_000)) for name in (source, target)]
        here, there = [await opened(Store(urls[name], timeout_ms=10_000)) for name in (source, target)]
        made.append(Pair(one, two, here, there, f"p{len(made)}"))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        _hasten(patch)
        yield make
        for each in made:
            await each.clean()
    for store in stores:
        await store.close()
