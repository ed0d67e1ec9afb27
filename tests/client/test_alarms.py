"""Alarms of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator.client.http import Alarms

pytestmark = pytest.mark.anyio


class Rung:
    """Which alarms have rung, in order."""

    def __init__(self, alarms: Alarms, *names: str) -> None:
        self.names: list[str] = []
        self._awaited, self._all = set(names), asyncio.Event()
        self.alarms = alarms

    def ring(self, name: str) -> Callable[[], None]:
        def ring() -> None:
            self.names.append(name)
            self._awaited.discard(name)
            if not self._awaited:
                self._all.set()

        return ring

    def set(self, name: str, seconds: float) -> None:
        self.alarms.set(name, seconds, self.ring(name))

    async def all(self) -> list[str]:
        async with asyncio.timeout(30):
            await self._all.wait()
        return self.names


async def test_alarms_ring_in_the_order_of_their_times() -> None:
    rung = Rung(Alarms(), "soon", "later")
    rung.set("never", 3600.0)
    rung.set("later", 0.02)
    rung.set("soon", 0.01)
    assert await rung.all() == ["soon", "later"]
    rung.alarms.close()


async def test_what_is_dropped_or_replaced_does_not_ring() -> None:
    rung = Rung(Alarms(), "last")
    for name in ("dropped", "replaced"):
        rung.set(name, 0.001)
    rung.alarms.drop("dropped")
    rung.alarms.drop("never set")
    rung.set("replaced", 3600.0)
    rung.set("last", 0.02)
    assert await rung.all() == ["last"]
    rung.alarms.close()


async def test_an_alarm_may_set_and_drop_others() -> None:
    alarms = Alarms()
    rung = Rung(alarms, "second")

    def first() -> None:
        rung.names.append("first")
        alarms.drop("other")
        rung.set("second", 0.0)

    alarms.set("first", 0.001, first)
    alarms.set("other", 0.001, rung.ring("other"))
    assert await rung.all() == ["first", "second"]
    alarms.close()


async def test_none_rings_after_the_end() -> None:
    alarms, other = Alarms(), Rung(Alarms(), "later")
    closed = Rung(alarms)
    closed.set("closed", 0.001)
    alarms.close()
    other.set("later", 0.02)
    await other.all()
    assert closed.names == []
    other.alarms.close()
