"""The queues of steps, when a project is copied: who shares them is refused, and no job of it stays behind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.doctor import queues
from coordinator.projects.errors import ProjectProblem
from coordinator.settings import Settings
from coordinator.steps import left_jobs, queue_place
from coordinator.steps.handoff import RQ_PREFIX, queue_name
from coordinator.store.embedded.server import EmbeddedServer
from tests.projects.pairs import Make, pairs
from tests.steps.rig import Rig

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of three servers."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(EmbeddedServer(tmp_path_factory.mktemp(name), fsync="everysec")).url
            for name in ("one", "two", "third")
        }


@pytest.fixture
async def pair(urls: dict[str, str]) -> AsyncIterator[Make]:
    async with pairs(urls) as make:
        yield make


async def test_fleets_that_share_their_queues_are_refused(pair: Make) -> None:
    both, third = await pair("one", "two"), (await pair("third", "third")).source
    await both.here.add()
    for queue in (third, both.target):  # that of the target's fleet may be its own store
        for store in (both.source, both.target):
            await queue_place.note(store, queue)
        for deletes in (False, True):
            with pytest.raises(ProjectProblem, match="have their queues of steps in the same Redis"):
                await both.copy(deletes)
        assert await both.serves(both.here)
        assert await both.names(both.target) == set()
    await queue_place.note(both.source, both.source)
    await both.copy(deletes=True)
    assert await both.serves(both.there)


async def test_jobs_that_no_worker_took_go_with_their_project(pair: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    both = await pair("one", "two")
    store, rig = both.here.store, Rig(both.here.store, Settings())
    monkeypatch.setattr(left_jobs, "PAGE", 3)
    for number in range(10):
        for project in (both.project, "other") if number % 3 else (both.project,):
            await rig.create(project=project, queue="gpu")
    queue = f"{RQ_PREFIX}:queue:{queue_name('gpu', 'normal')}"
    assert await store.command("LLEN", queue) == 16
    await both.copy(deletes=True)
    left = await store.command("LRANGE", queue, 0, -1)
    assert [job.split(b"-")[0] for job in left] == [b"other"] * 6
    assert {key.rpartition(b":")[2] for key in await store.command("KEYS", f"{RQ_PREFIX}:job:*")} == set(left)
    (found,) = [one async for one in queues.check(store.client)]
    assert "6 jobs in" in found.said
