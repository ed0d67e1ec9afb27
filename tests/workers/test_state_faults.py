"""States under faults at every moment: a call is made with all that its owner has done, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.steps.states import LOST, StateStore
from coordinator.store import keys
from tests.gateway.lab import Refused, Worker
from tests.support.stateful import stateful
from tests.support.wait import process_alive
from tests.workers.conftest import MakePair
from tests.workers.fleet import chain
from tests.workers.pair import Pair, add
from workers.downstream.server import DownstreamServer

pytestmark = pytest.mark.anyio


class Moment:
    """Stops the first worker that comes to a moment, before or after a step of its ``count``-th call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: type, step: str, before: bool, count: int) -> None:
        self.reached = asyncio.Event()
        self._before = before
        self._count = count
        self._original: Callable[..., Awaitable[Any]] = getattr(of, step)
        here = self

        async def stopping(*args: Any, **more: Any) -> Any:
            return await here.pass_by(*args, **more)

        monkeypatch.setattr(of, step, stopping)

    async def pass_by(self, *args: Any, **more: Any) -> Any:
        self._count -= 1
        now = self._count == 0
        if now and self._before:
            await self._stop()
        found = await self._original(*args, **more)
        if now:
            await self._stop()
        return found

    async def _stop(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


async def kill(pair: Pair, worker: Worker) -> None:
    """Ends a worker as a crash would, as far as the store can see."""
    steps = [attempt.step for attempt in worker.engine.held.values()]
    await worker.abandon()
    pair.workers.remove(worker)
    await pair.store.command("ZADD", keys.state_leases.key(keys.FLEET), "XX", 1, worker.states.id)
    for step in steps:
        await pair.store.command("ZADD", keys.step_leases.key(pair.project), "XX", 1, step.step)


MOMENTS = [
    (StateStore, "acquire", True),
    (StateStore, "acquire", False),
    (StateStore, "use", True),
    (StateStore, "use", False),
    (DownstreamServer, "call", False),
    (StateStore, "keep", False),
]
OFTEN = [(2, *MOMENTS[1]), (1, *MOMENTS[2]), (1, *MOMENTS[3]), (2, *MOMENTS[4])]


@pytest.mark.parametrize(
    ("count", "of", "step", "before"),
    [
        *OFTEN,
        *(
            pytest.param(count, *moment, marks=pytest.mark.chaos)
            for count in (1, 2)
            for moment in MOMENTS
            if (count, *moment) not in OFTEN
        ),
    ],
)
async def test_a_worker_is_killed_at_each_step_of_a_call(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch, count: int, of: type, step: str, before: bool
) -> None:
    pair = await make_pair()
    moment = Moment(monkeypatch, of, step, before, count)
    flow = await pair.flows.create(chain(*(add(word, on_error="continue") for word in "abcd")))
    await moment.reached.wait()
    (killed,) = [worker for worker in pair.workers if worker.engine.held or worker.states.held]
    await kill(pair, killed)
    (ended,) = await pair.flows.ended([flow])
    await killed.close()
    results = [json.loads(one.result_json or "") for one in ended.steps]
    made: list[str] = []
    for word, result in zip("abcd", results, strict=True):
        if result.get("type") == "state_lost":
            made = []
        else:
            made.append(word)
            assert result["words"] == made, results
    lost = sum("type" in result for result in results)
    unused = count == 1 and (step == "acquire" or (step == "use" and before))
    assert lost == (0 if unused else 1)


async def test_an_answer_that_nobody_has_heard_is_given_again(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = await make_pair()
    use = StateStore.use
    unheard: list[int] = []

    async def lost(*args: Any, **more: Any) -> int:
        found = await use(*args, **more)
        if found == LOST and not unheard:
            unheard.append(found)
            raise ToolFailure("store_unavailable", "the answer is lost")
        return found

    monkeypatch.setattr(StateStore, "use", lost)
    ended = await pair.ended(
        add("a"), {"tool": "it.die", "on_error": "continue"}, add("b", on_error="continue"), add("c")
    )
    assert unheard == [LOST]
    (_, _, told, after) = ended.steps
    assert json.loads(told.result_json or "")["type"] == "state_lost"
    assert json.loads(after.result_json or "")["words"] == ["c"]


class Owner:
    """A caller, and what a model says of its state."""

    def __init__(self, pair: Pair, who: str) -> None:
        self._pair = pair
        self._who = who
        self._done: list[str] = []
        self._number = 0
        self.pid = 0
        self.lost = 0

    async def call(self) -> None:
        """One call: it sees all that this owner has done, or says that this is lost, or cannot be made."""
        self._number += 1
        word = f"{self._who}{self._number}"
        try:
            answer = await self._pair.lab.as_(self._who).call("add", word=word)
        except Refused as refused:
            self._refused(refused.body["error"]["details"]["errorClass"])
            return
        answer = await self._pair.lab.settled(answer)
        if "lastFailure" in answer:
            assert "has lost the state" in answer["lastFailure"]["message"], answer
            self._done = []
            return
        self._done.append(word)
        result = answer["context"]["lastResult"]
        assert result["words"] == self._done
        self.pid = result["pid"]

    def _refused(self, kind: str) -> None:
        assert kind in ("state_lost", "connection_error")
        if kind == "state_lost":
            self._done = []
            self.lost += 1


async def faults(pair: Pair, owners: list[Owner], chance: random.Random, rounds: int) -> None:
    """Calls of all owners, with faults in between."""
    for _ in range(rounds):
        calls = [asyncio.create_task(owner.call()) for owner in owners if chance.random() < 0.8]
        fault = chance.randrange(6)
        if fault == 0:
            victim = chance.choice(owners).pid
            if victim and process_alive(victim):
                os.kill(victim, signal.SIGKILL)
        elif fault == 1:
            for worker in pair.workers:
                await pair.store.command("ZADD", keys.state_leases.key(keys.FLEET), "XX", 1, worker.states.id)
        elif fault == 2:
            pair.configure(stateful(chance.choice("xyz"), state_most=8))
        elif fault == 3:
            await chance.choice(pair.workers).states.renew()
        await asyncio.gather(*calls)


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 12), *(pytest.param(seed, 40, marks=pytest.mark.chaos) for seed in range(2, 12))]
)
async def test_under_random_faults_nobody_sees_what_is_not_theirs(make_pair: MakePair, seed: int, rounds: int) -> None:
    pair = await make_pair(stateful(state_most=8))
    owners = [Owner(pair, f"o{number}x") for number in range(6)]
    await faults(pair, owners, random.Random(seed), rounds)
    assert sum(owner.lost for owner in owners), "the faults had an effect"
