"""Random flows under random histories of several workers: the record always matches the meaning of the flow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from coordinator.settings import Settings
from coordinator.steps.model import Failure, Plan, StepRun, Success
from coordinator.steps.store import OVER, RECORDED, REFUSED
from coordinator.steps.times import MAX_CRASHES
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import planner
from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.rules.spec import Flow
from tests.flows.programs import flow_of, meaning, programs, results_of
from tests.steps.rig import Player, Rig

Run = Callable[[Callable[[Rig], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def run(server: EmbeddedServer) -> Iterator[Run]:
    """Runs a history on an empty store."""
    with asyncio.Runner() as runner:
        store = Store(server.url, timeout_ms=5000)
        runner.run(store.open())

        async def one(history: Callable[[Rig], Awaitable[None]]) -> None:
            # Not FLUSHALL: then the store would be rejected.
            if names := await store.command("KEYS", "*"):
                await store.command("DEL", *names)
            await history(Rig(store, Settings()))

        yield lambda history: runner.run(one(history))
        runner.run(store.close())


class History:
    """Three workers that act on one flow at random."""

    def __init__(self, rig: Rig, flow: Flow, results: dict[str, Any], draw: Callable[[Any], Any]) -> None:
        self.rig = rig
        self.flow = flow
        self.results = results
        self.draw = draw
        self.run = 0
        self.players = [rig.worker, rig.player("w2"), rig.player("w3")]
        self.held: list[tuple[Player, StepRun]] = []
        self.past: list[tuple[Player, StepRun]] = []
        """Attempts that were reported, given back or lost: none of them may appear again."""
        self.crashes: Counter[str] = Counter()
        self.recorded: Counter[str] = Counter()
        self.let: set[str] = set()
        """Steps that were released since the flow was paused."""

    def plan(self, step: StepRun) -> Plan:
        value = None if self.flow[step.key].tool is None else self.results.get(step.key)
        return planner.after(self.flow, step.key, Success(value))

    async def begin(self) -> None:
        self.run = await self.rig.create(planner.begin(self.flow), steps=len(self.flow))

    async def turn(self) -> None:
        """A random action of a worker, a clock or a person."""
        acts = [
            self.take,
            self.report,
            self.report,
            self.repeat,
            self.lose,
            self.give_back,
            self.fail,
            self.release,
            self.pause,
            self.resume,
        ]
        await self.draw(st.sampled_from(acts))()

    async def take(self) -> None:
        player = self.draw(st.sampled_from(self.players))
        await self.began(player, await player.take(self.draw(st.integers(1, 4))))

    async def began(self, player: Player, steps: list[StepRun]) -> None:
        """Steps that a worker has taken: of a paused flow only released ones."""
        if steps and await self.rig.status(self.run) == "paused":
            assert {step.step for step in steps} <= self.let
        self.let.difference_update(step.step for step in steps)
        self.held += [(player, step) for step in steps]

    async def pause(self) -> None:
        outcome = await self.rig.flows.pause("default", NO_KEY, self.run, "ops")
        if outcome is not None and outcome[0]:
            self.let.clear()

    async def resume(self) -> None:
        await self.rig.flows.pause("default", NO_KEY, self.run, "ops", resume=True)

    def _pick(self) -> tuple[Player, StepRun] | None:
        if not self.held:
            return None
        player, step = self.held.pop(self.draw(st.integers(0, len(self.held) - 1)))
        self.past.append((player, step))
        return player, step

    async def report(self) -> None:
        if picked := self._pick():
            player, step = picked
            taken = await player.report(step, "D", self.plan(step), want=self.draw(st.integers(0, 3)))
            assert taken.results[0] in (RECORDED, OVER)
            self.recorded[step.key] += 1
            await self.began(player, taken.steps)

    async def repeat(self) -> None:
        if self.past:
            player, step = self.draw(st.sampled_from(self.past))
            how = self.draw(st.sampled_from("DBY"))
            other = self.draw(st.sampled_from([player, *self.players]))
            taken = await other.report(step, how, self.plan(step) if how == "D" else 0)
            assert taken.results == [REFUSED]

    async def lose(self) -> None:
        if self.held and (picked := self._pick()):
            player, step = picked
            if self.crashes[step.step] + 1 >= MAX_CRASHES:
                self.held.append((player, step))
                self.past.pop()
                return
            self.crashes[step.step] += 1
            await self.rig.expire([step])
            await self.draw(st.sampled_from(self.players)).steps.sweep("default")

    async def give_back(self) -> None:
        if picked := self._pick():
            player, step = picked
            assert (await player.report(step, "B", 0)).results[0] in (RECORDED, OVER)

    async def fail(self) -> None:
        """A failed attempt that is retried after a delay."""
        if picked := self._pick():
            player, step = picked
            taken = await player.report(step, "Y", self.draw(st.sampled_from([0, 60_000])), '{"error":"busy"}')
            if taken.results == [RECORDED]:
                await self.wake()

    async def wake(self) -> None:
        """Ends all delays."""
        for step in (await self.rig.flow(self.run)).steps:
            if step.status == "pending":
                await self.rig.ring(step.id)
        await self.rig.worker.steps.sweep("default")

    async def release(self) -> None:
        """Releases a gate, or a step of a paused flow."""
        waits = [step for step in (await self.rig.flow(self.run)).steps if step.gate or step.status == "paused"]
        if waits:
            step = self.draw(st.sampled_from(waits))
            assert await self.rig.flows.release("default", NO_KEY, step.id, "bob") == (True, step.status)
            self.let.add(str(step.id))

    async def finish(self) -> None:
        """Executes all open steps, in order."""
        await self.resume()
        while (await self.rig.status(self.run)) == "running":
            before = await self.rig.flow(self.run)
            for gate in [step.id for step in before.steps if step.gate]:
                await self.rig.flows.release("default", NO_KEY, gate, "bob")
            await self.wake()
            self.held += [(self.rig.worker, step) for step in await self.rig.worker.take(50)]
            while self.held:
                player, step = self.held.pop()
                taken = await player.report(step, "D", self.plan(step), want=5)
                self.recorded[step.key] += 1
                self.held += [(player, new) for new in taken.steps]
            assert (await self.rig.flow(self.run)) != before, "nothing goes on"


@given(programs(most=12), st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_random_histories_match_the_meaning_of_a_flow(run: Run, program: Any, data: st.DataObject) -> None:
    flow = check_flow(flow_of(program), {}, lambda name: "", with_results=False)
    expected = meaning(program)

    async def history(rig: Rig) -> None:
        story = History(rig, flow, results_of(program), data.draw)
        await story.begin()
        for _ in range(data.draw(st.integers(0, 40))):
            if await rig.status(story.run) not in ("running", "paused"):
                break
            await story.turn()
        await story.finish()
        record = await rig.flow(story.run)
        keys = [step.key for step in record.steps]
        assert len(set(keys)) == len(keys)
        assert max(story.recorded.values(), default=1) == 1
        done = [event["n"] for event in await rig.events() if event["k"] == "step_done"]
        assert Counter(done) == story.recorded
        if expected.stuck:
            event("stuck")
            assert record.row.status == "failed"
        else:
            event("complete")
            assert record.row.status == "completed"
            assert {key for key in keys if "-" not in key} == expected.run
            assert {step.status for step in record.steps} == {"done"}
        # No entry is left in any index.
        for player, step in story.held:
            await player.done(step, Plan())
        swept = await rig.worker.steps.sweep("default")
        assert (swept.running, swept.queued, swept.idle) == (0, 0, True)
        assert await rig.worker.take(5) == []
        assert await rig.store.command("KEYS", "fc:{default}:st:*") == []

    run(history)


class Restless(History):
    """The same, with people who cancel and retry the flow."""

    async def turn(self) -> None:
        acts = [
            self.take,
            self.report,
            self.report,
            self.lose,
            self.fail_for_good,
            self.cancel,
            self.again,
            self.release,
            self.pause,
            self.resume,
        ]
        await self.draw(st.sampled_from(acts))()

    async def report(self) -> None:
        if picked := self._pick():
            player, step = picked
            await self.do(player, step, self.draw(st.integers(0, 3)))

    async def do(self, player: Player, step: StepRun, want: int) -> None:
        """A random outcome of a step."""
        value = None if self.flow[step.key].tool is None else self.results.get(step.key)
        text = step.arguments if step.verdict == "recorded" else msgspec.json.encode(value).decode()
        plan = planner.after(self.flow, step.key, Success(msgspec.json.decode(text)))
        taken = await player.report(step, "D", plan, text, want=want)
        await self.began(player, taken.steps)

    async def lose(self) -> None:
        if picked := self._pick():
            await self.rig.store.command("ZADD", keys.step_leases.key("default"), "XX", 1, picked[1].step)
            await self.rig.worker.steps.sweep("default")

    async def fail_for_good(self) -> None:
        if picked := self._pick():
            player, step = picked
            plan = planner.after(self.flow, step.key, Failure("no", "x"))
            await player.report(step, "F", plan, '{"error":"no","type":"x"}')

    async def cancel(self) -> None:
        await self.rig.flows.cancel("default", NO_KEY, self.run, "bob")

    async def again(self) -> None:
        await self.rig.flows.retry("default", NO_KEY, self.run, "bob")

    async def finish(self) -> None:
        """Executes steps until the flow ends; lost attempts do not count."""
        await self.resume()
        await self.again()
        for _ in range(200):
            record = await self.rig.flow(self.run)
            if record.row.status == "completed":
                return
            if record.row.status != "running":
                assert (await self.rig.flows.retry("default", NO_KEY, self.run, "bob") or (0,))[0] > 0
            for gate in [step.id for step in record.steps if step.gate]:
                await self.rig.flows.release("default", NO_KEY, gate, "bob")
            await self.wake()
            self.held += [(self.rig.worker, step) for step in await self.rig.worker.take(50)]
            while self.held:
                await self.do(*self.held.pop(), 5)
        raise AssertionError(f"the flow does not end: {await self.rig.flow(self.run)}")


@given(programs(most=12), st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_a_flow_that_is_cancelled_and_runs_again_is_never_stranded(run: Run, program: Any, data: st.DataObject) -> None:
    flow = check_flow(flow_of(program), {}, lambda name: "", with_results=False)
    expected = meaning(program)
    assume(not expected.stuck)

    async def history(rig: Rig) -> None:
        story = Restless(rig, flow, results_of(program), data.draw)
        await story.begin()
        for _ in range(data.draw(st.integers(0, 60))):
            await story.turn()
        await story.finish()
        record = await rig.flow(story.run)
        found = [step.key for step in record.steps]
        assert len(set(found)) == len(found)
        assert {key for key in found if "-" not in key} == expected.run
        assert {step.status for step in record.steps} == {"done"}

    run(history)
