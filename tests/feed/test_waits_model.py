"""Waiting reads beside a model: changes, deliveries, failovers and reads in any order, and no wake-up is missed.

The store and the feed's reader are simulated, so that every order can happen: an entry is told before the read that
began earlier has answered, after it, or not before the reader has found another server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.feed import waits
from coordinator.feed.cursor import Cursor, Entry
from coordinator.feed.metrics import WAITS_ENDED
from coordinator.feed.subjects import Met, Moment, Reading, Recheck, SubjectSource, WaitOutcome
from coordinator.feed.waits import Waits
from tests.support.counts import counted

pytestmark = pytest.mark.anyio

ROUNDS = 500
PARTS = ("a", "b", "c")


class World:
    """A store with things that begin open and may be ended and reopened, its stream, and the reader of that."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.epoch = "0"
        self.stream: list[tuple[str, bool]] = []
        """Of each entry: what it is about, and whether that is open from then on."""
        self.told = Cursor("p", "", (0, 0))
        self.watches: dict[str, set[Any]] = {}
        self.was_done = 0
        """How often everything was ended, so far."""

    @property
    def last(self) -> Entry:
        return (1, len(self.stream))

    def open(self, part: str) -> bool:
        return next((is_open for name, is_open in reversed(self.stream) if name == part), True)

    @property
    def done(self) -> bool:
        return not any(map(self.open, PARTS))

    def change(self, part: str, is_open: bool) -> None:
        self.stream.append((part, is_open))
        self.was_done += self.done

    def fail_over(self) -> None:
        """Another server takes over, which may lack the last changes."""
        self.epoch = str(int(self.epoch) + 1)
        del self.stream[len(self.stream) - self.chance.randint(0, min(2, len(self.stream))) :]
        self.was_done += self.done

    # --- the reader

    def watch(self, at: Cursor, name: str, told: Any) -> None:
        if not self.told.epoch:
            self.told = at
        self.watches.setdefault(name, set()).add(told)

    def unwatch(self, project: str, name: str, told: Any) -> None:
        self.watches[name].discard(told)

    def reached(self, project: str) -> Cursor | None:
        return self.told if self.told.epoch else None

    def deliver(self) -> None:
        """The reader passes one entry on; first it finds another server, if there is one."""
        if not self.told.epoch:
            return
        if self.told.epoch != self.epoch:
            self.told = Cursor("p", self.epoch, min(self.told.entry, self.last))
            for told in {told for group in self.watches.values() for told in group}:
                told(None, False)
        elif self.told.entry < self.last:
            position = self.told.entry[1]
            self.told = Cursor("p", self.epoch, (1, position + 1))
            for told in tuple(self.watches.get(self.stream[position][0], ())):
                told(self.told.entry, False)

    # --- the source

    async def read(self, project: str, asked: Sequence[tuple[str, Reading | None]]) -> Moment:
        await self._some_time()
        witness = next(filter(self.open, self.chance.sample(PARTS, 3)), None)
        names = PARTS if witness is None else (witness,)
        readings = {
            "done": Reading(repr(self.stream), self.done, names),
            "version": Reading(repr([self.open(part) for part in PARTS]), False, PARTS),
        }
        moment = Moment(self.epoch, self.last, [readings[key] for key, _ in asked])
        await self._some_time()
        return moment

    async def _some_time(self) -> None:
        for _ in range(self.chance.randint(0, 3)):
            await asyncio.sleep(0)


async def turn(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def play(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance)
    room = Waits(world)  # type: ignore[arg-type]
    source = SubjectSource("model", world.read, lambda key: ())
    waiting: list[tuple[asyncio.Task[WaitOutcome], int, bool]] = []

    def begin() -> None:
        done = chance.random() < 0.7
        wait = room.wait(source, "p", "done" if done else "version", 1e6, changed=not done)
        waiting.append((asyncio.create_task(wait), world.was_done - world.done, done))

    begin()
    for _ in range(chance.randint(5, 25)):
        dice = chance.random()
        if dice < 0.4:
            world.change(chance.choice(PARTS), chance.random() < 0.4)
        elif dice < 0.7:
            world.deliver()
        elif dice < 0.76:
            world.fail_over()
        elif dice < 0.88:
            begin()
        elif dice < 0.92:
            chance.choice(waiting)[0].cancel()
        await turn(chance.randint(0, 3))
    await turn(20)  # those that have come last have been read
    if not world.done:
        for part in PARTS:
            world.change(part, False)
            if chance.random() < 0.5:
                world.deliver()
            await turn(chance.randint(0, 3))
    while world.told.epoch and (world.told.epoch != world.epoch or world.told.entry < world.last):
        world.deliver()
        await turn(chance.randint(0, 2))
    await turn(60)
    for task, before, done in waiting:
        if task.cancelled():
            continue
        if done:
            assert task.done(), f"a wake-up was missed (seed {seed})"
            assert task.result().met
            assert world.was_done > before, f"it never was like that (seed {seed})"
        elif task.done():
            assert task.result().met
        else:
            reading = room.reading(source, "p", "version")
            now = repr([world.open(part) for part in PARTS])
            assert reading is not None
            assert reading.version == now, f"a change was missed (seed {seed})"
            task.cancel()
    await asyncio.gather(*(task for task, _, _ in waiting), return_exceptions=True)
    assert room.waiting == room.subjects == 0
    assert not any(world.watches.values())


async def test_no_order_of_events_misses_a_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 1e6)
    first = random.randrange(1_000_000)
    # 501450: a call comes, and the reader finds another server while the call's first read is under way.
    for seed in (501450, *range(first, first + ROUNDS)):
        await play(seed)


async def test_a_defect_ends_the_wait_that_it_concerns_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(waits, "RECHECK_SECONDS", 0.0)
    room, checked = Waits(World(random.Random(0))), asyncio.Event()  # type: ignore[arg-type]
    before = counted(WAITS_ENDED, "failed")
    source = SubjectSource("model", room.reader.read, lambda key: ())  # type: ignore[attr-defined]

    async def broken() -> None:
        raise RuntimeError("a defect")

    async def check() -> None:
        checked.set()

    def judge(reading: Reading) -> bool:
        raise RuntimeError("another defect")

    def wait(recheck: Recheck, met: Met | None = None) -> asyncio.Task[WaitOutcome]:
        return asyncio.create_task(room.wait(source, "p", "done", 1e6, met=met, recheck=recheck))

    defective = [wait(broken), wait(broken), wait(check, judge)]
    sound = wait(check)
    assert all(isinstance(one, RuntimeError) for one in await asyncio.gather(*defective, return_exceptions=True))
    checked.clear()
    await checked.wait()
    assert not sound.done()
    sound.cancel()
    await asyncio.gather(sound, return_exceptions=True)
    assert counted(WAITS_ENDED, "failed") == before + len(defective)
