"""After an outage of Redis a worker receives commands again, and checks at once what it has missed."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
import redis.exceptions
from redis import Redis

import workers.heartbeat
from coordinator.settings import Settings
from coordinator.steps.handoff import queue_names
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY
from tests.support.wait import wait_until, wait_until_sync
from tests.workers.bench import Bench, chain, hang
from workers.attempts import StepAttempt
from workers.heartbeat import Heartbeat
from workers.rq.worker import StepWorker

pytestmark = pytest.mark.anyio


class Known:
    """A worker as RQ sees it, and the commands that it gets."""

    def __init__(self, connection: Redis) -> None:
        self.stopped: queue.Queue[str] = queue.Queue()
        self.again: queue.Queue[None] = queue.Queue()
        self.connection = connection
        self.worker = StepWorker(
            connection, "w-0", queue_names(Settings().steps.pools), self.stopped.put, lambda paused: None
        )
        self.worker.begin()
        self.worker.on_reconnect = lambda: self.again.put(None)

    def hang_up(self) -> None:
        """Makes the server close the connection for commands."""
        wait_until_sync(lambda: self.listeners() == 1, what="the worker to listen")
        assert self.connection.client_kill_filter(_type="pubsub") == 1

    def listeners(self) -> int:
        ((_, count),) = self.connection.pubsub_numsub(self.worker.pubsub_channel_name)
        return int(count)

    def close(self) -> None:
        self.worker.end()
        self.connection.client_kill_filter(_type="pubsub")
        thread: Any = self.worker.pubsub_thread
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def known(connection: Redis) -> Iterator[Known]:
    known = Known(connection)
    yield known
    known.close()


def test_commands_are_received_again_and_missed_ones_checked(known: Known) -> None:
    for _ in range(2):
        known.hang_up()
        known.again.get(timeout=60)
        wait_until_sync(lambda: known.listeners() == 1, what="the worker to listen again")
        said = json.dumps({"command": "stop-job", "job_id": "1-2-3"})
        known.connection.publish(known.worker.pubsub_channel_name, said)
        assert known.stopped.get(timeout=60) == "1-2-3"
    assert known.again.empty()


def test_invalid_commands_do_not_end_the_subscription(known: Known) -> None:
    wait_until_sync(lambda: known.listeners() == 1, what="the worker to listen")
    stop = json.dumps({"command": "stop-job", "job_id": "1-2-3"}).encode()
    for said in (b"\xff", b'{"command": "\xff"}', b"[]", b"[" * 100_000, stop):
        known.connection.publish(known.worker.pubsub_channel_name, said)
    assert known.stopped.get(timeout=30) == "1-2-3"


@pytest.mark.parametrize("error", [redis.exceptions.TimeoutError(), redis.exceptions.ConnectionError(), OSError()])
def test_no_loss_of_redis_ends_the_subscription(known: Known, error: Exception) -> None:
    known.worker.pause_listening(error)
    with pytest.raises(ZeroDivisionError):
        known.worker.pause_listening(ZeroDivisionError())


class Nobody:
    """A worker without a registration in RQ."""

    def beat(self, pipeline: Any, attempts: list[StepAttempt]) -> Any:
        return lambda replies: None


@pytest.mark.parametrize("new", [False, True], ids=["the same server", "a server without scripts"])
async def test_a_hurried_heartbeat_learns_at_once_which_steps_are_lost(
    store: Store, connection: Redis, bench: Bench, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    monkeypatch.setattr(workers.heartbeat, "RENEW_SECONDS", 3600)
    lost: list[StepAttempt] = []
    held = bench.engine.held
    heartbeat = Heartbeat("b1", lambda project: connection, connection, Nobody(), held, lost.append)
    await heartbeat.start()
    try:
        bench.tools.tools["hang"] = hang
        await bench.start()
        flow = await bench.create(chain({"tool": "hang"}))
        await wait_until(lambda: bench.tools.began["start"] == 1)
        (attempt,) = held.values()
        assert await bench.flows.cancel("default", NO_KEY, flow, "bob") == (True, "cancelled")
        if new:
            connection.script_flush()
        heartbeat.hurry()
        await wait_until(lambda: lost, what="the heartbeat to ask")
        assert lost == [attempt]
        bench.engine.interrupt(attempt.step.job_id, "lost")
    finally:
        await heartbeat.stop()


async def test_no_heartbeat_is_sent_to_a_rejected_store(connection: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.heartbeat, "RENEW_SECONDS", 3600)
    asked: queue.Queue[None] = queue.Queue()
    beats: queue.Queue[bool] = queue.Queue()
    another = True

    class Presence(Nobody):
        def beat(self, pipeline: Any, attempts: list[StepAttempt]) -> Any:
            beats.put(another)
            return super().beat(pipeline, attempts)

    def refused() -> bool:
        found = another
        asked.put(None)
        return found

    heartbeat = Heartbeat("b1", lambda project: connection, connection, Presence(), {}, lambda attempt: None, refused)
    await heartbeat.start()
    try:
        heartbeat.hurry()
        asked.get(timeout=60)
        another = False
        heartbeat.hurry()
        assert beats.get(timeout=60) is False
    finally:
        await heartbeat.stop()
