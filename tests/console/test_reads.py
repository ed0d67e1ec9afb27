"""How much pages read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from coordinator.console.graphs.layouts import Layouts
from coordinator.console.metrics import SHED
from coordinator.console.reads import Reads
from coordinator.console.view import View, Visit
from coordinator.console.views import VIEWS
from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.toolsets.gateway.decisions import Decisions
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.tool import Criticality
from tests.console.site import ADA, SETTINGS, Site
from tests.overload.front import Front, shed_calls
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
T = TypeVar("T")


class Counted(Reads):
    """Counts the reads of the store, and the rows that they find."""

    count = rows = 0

    async def admitted(self, project: str, read: Callable[[], Awaitable[T]]) -> T:
        self.count += 1
        found: Any = await super().admitted(project, read)
        if isinstance(found, tuple) and isinstance(found[-1], list):
            self.rows += len(found[-1])
        return found


@pytest.fixture
def site(store: Store, project: str) -> Site:
    return Site(store, project)


@pytest.fixture
def reads(store: Store, site: Site) -> Counted:
    listener = Listener(store)  # only reads, so that it never starts
    return Counted(store, site.toolsets, Decisions.of(store, SETTINGS, listener), None)


def asked(reads: Reads, project: str, view: View, **query: str) -> Visit:
    return Visit(ADA, view, project, "", query, reads, Layouts(), at="x")


async def test_a_board_below_an_item_looks_for_it_once(site: Site, reads: Counted) -> None:
    item = await site.create()
    view = VIEWS["board"]
    page = asked(reads, site.project, view, below=item[:8])
    for region in view.regions.values():
        await region.load(page)
    assert reads.count == 1 + len(view.regions)


async def test_in_an_overload_pages_are_shed_and_the_state_of_the_fleet_is_read(store: Store, site: Site) -> None:
    front = Front(queue_ms=1)
    listener = Listener(store)
    before, decisions = counted(SHED), Decisions.of(store, SETTINGS, listener)
    reads = Reads(store, site.toolsets, decisions, front.admission)
    held = front.fill(Criticality.SHEDDABLE, 4)
    with pytest.raises(ToolFailure, match="the fleet is overloaded, and calls of agents come before pages") as refused:
        await VIEWS["board"].regions["queue"].load(asked(reads, site.project, VIEWS["board"]))
    assert refused.value.kind == "shedding"
    assert counted(SHED) == before + 1
    assert refused.value.retry_after_ms
    for region in VIEWS["system"].regions.values():
        await region.load(asked(reads, "", VIEWS["system"]))
    for ticket in held:
        front.admission.leave(ticket)
    await VIEWS["board"].regions["queue"].load(asked(reads, site.project, VIEWS["board"]))


async def test_pages_shed_no_pages(store: Store, site: Site) -> None:
    front, done = Front(), asyncio.Event()
    reads = Reads(store, site.toolsets, Decisions.of(store, SETTINGS, Listener(store)), front.admission)
    front.fill(Criticality.SHEDDABLE, 2)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(reads.vital("state", done.wait))
        pages = [group.create_task(reads.admitted(site.project, done.wait)) for _ in range(6)]
        await wait_until(lambda: front.admission.in_flight + front.admission.waiting == 5)
        done.set()
    assert all(page.result() for page in pages)
    assert not shed_calls()


async def test_find_reads_no_more_items_than_it_shows(site: Site, reads: Counted) -> None:
    for number in range(12):
        await site.create(f"needle {number}")
    view = VIEWS["find"]
    found = await view.regions["found"].load(asked(reads, site.project, view, text="needle"))
    assert len(found.rows) == 10
    assert reads.rows == 10
