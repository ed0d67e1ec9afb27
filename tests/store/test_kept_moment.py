"""What an embedded store lost while its fleet was down is noticed at the next start, and nothing else is."""

from __future__ import annotations

import asyncio
import errno
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.store import Store, keys
from coordinator.store.checks import kept_moment, key_space
from coordinator.store.checks.kept_moment import Kept, MomentKeeper
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.drains import Drains
from coordinator.store.metrics import STORE_WENT_BACK
from tests.support.counts import counted
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_moment, "LOOK_SECONDS", 0.05)


class Session:
    """One run of a fleet on a data directory: its server, and a process that writes."""

    def __init__(self, data: Path) -> None:
        self.server = EmbeddedServer(data)
        keeper = MomentKeeper(data, lambda: self.server.url)
        self.supervisor = StoreSupervisor(self.server, lambda: None, keeper=keeper)
        self.said: list[Any] = []
        """What the start said about a loss."""
        self.events: list[bytes] = []
        self.moment = 0

    async def write(self) -> None:
        """A call that writes, and the time that its process notes then."""
        store = Store(self.server.url, 5000)
        await store.open()
        await key_space.settle(store)
        following = asyncio.create_task(Drains(store).follow("fe-0", ignore))
        try:
            before = self.moment
            await wait_until(lambda: store.identity.latest > before, what="a noted time")
            self.moment = store.identity.latest
            self.events = [
                one[1] for _, one in await store.command("XRANGE", keys.fleet_events.key(keys.FLEET), "-", "+")
            ]
        finally:
            following.cancel()
            await asyncio.wait([following])
            await store.close()


@asynccontextmanager
async def session(data: Path) -> AsyncIterator[Session]:
    one = Session(data)
    with capture_logs() as logs:
        await one.supervisor.start()
    one.said = [line["seconds"] for line in logs if "gone back in time" in line["event"]]
    try:
        await one.write()
        yield one
    finally:
        await one.supervisor.stop()


async def ignore(scope: str) -> None:
    pass


def kept(data: Path) -> Kept:
    """The last one, which is the present store."""
    return Kept(*list(msgspec.json.decode((data / "store.moment").read_bytes(), type=dict[str, int]).items())[-1])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


@pytest.mark.parametrize("killed", [False, True])
async def test_a_copy_that_is_put_back_while_the_fleet_is_down_is_reported_once(tmp_path: Path, killed: bool) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with session(data):
        pass
    shutil.copytree(data / "redis", copy)
    async with session(data) as second:
        assert second.said == []
        copied = second.moment
        await second.write()
        if killed:
            await wait_until(lambda: kept(data).moment == second.moment, what="the time to be kept")
            kill(second.server)
    assert kept(data).moment == second.moment > copied
    put_back(copy, data / "redis")
    before = counted(STORE_WENT_BACK)
    async with session(data) as third:
        assert len(third.said) == 1
        assert third.said[0] > 0
        assert third.events == [b"store.went_back"]
    assert counted(STORE_WENT_BACK) == before + 1
    async with session(data) as fourth:
        assert fourth.said == []


async def test_neither_a_stop_nor_a_crash_nor_another_store_nor_a_whole_directory_is_a_loss(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with session(data) as first:
        kill(first.server)
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.sock"))
    for _ in range(2):
        async with session(data) as later:
            assert later.said == []
    put_back(copy, data)
    async with session(data) as restored:
        assert restored.said == []
    identity = kept(data).identity
    shutil.rmtree(data / "redis")
    async with session(data) as emptied:
        assert emptied.said == []
    assert kept(data).identity not in ("", identity)
    put_back(copy / "redis", data / "redis")
    async with session(data) as older:
        assert len(older.said) == 1, "another store was there in between"
    assert kept(data).identity == identity
    (data / "store.moment").write_text("{")
    async with session(data) as damaged:
        assert damaged.said == []
    assert kept(data).moment == damaged.moment


async def test_a_loss_is_reported_once_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk. Nothing is left of the attempts."""
    (tmp_path / "store.moment").write_bytes(b'{"ours":2000}')
    looks, reported = itertools.count(1), list[int]()

    async def read(ask: object) -> tuple[str, int]:
        return "ours", next(looks)

    async def report(ask: object, identity: str, lost: int) -> None:
        reported.append(lost)

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept_moment, "read_moment", read)
    monkeypatch.setattr(kept_moment, "report_loss", report)
    monkeypatch.setattr(kept_moment, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(Path, "replace", full)
    keeper = MomentKeeper(tmp_path, lambda: "")
    await keeper.start()
    await wait_until(lambda: next(looks) > 10, what="some looks")
    await keeper.stop()
    assert reported == [1_999]
    assert names(tmp_path) == ["store.moment"]


async def test_what_is_kept_was_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is kept a look after it was read, by when the server has written it, whenever that does it."""
    moments, looked = itertools.count(1), 0

    async def read(ask: object) -> tuple[str, int]:
        nonlocal looked
        looked = next(moments)
        if looked > 2:  # the first one is what was found at the start
            assert kept(tmp_path).moment <= looked - 2
        return "ours", looked

    monkeypatch.setattr(kept_moment, "read_moment", read)
    monkeypatch.setattr(kept_moment, "LOOK_SECONDS", 0.001)
    keeper = MomentKeeper(tmp_path, lambda: "")
    await keeper.start()
    await wait_until(lambda: kept(tmp_path).moment >= 5, what="times to be kept")
    await keeper.stop()
    assert kept(tmp_path).moment == looked
