"""Runners over real front-ends: what becomes of items, and when a runner pauses or ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from coordinator.client import Fleet, Invalid, jobs
from coordinator.runner import breaker, loop, records
from coordinator.runner.loop import Runner
from coordinator.runner.metrics import ATTEMPTS, DURATION, PAUSED, RUNNING
from tests.client.backlog import add, chain, context, held, notes, seen, triggers
from tests.runner.hall import Hall, attempts
from tests.runner.repositories import Place
from tests.support.counts import by_bucket, counted
from tests.support.wait import wait_until
from tests.support.worker_calls import Calls

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


async def test_hooks_that_do_not_run_are_said_at_the_start(hall: Hall, fleet: Fleet, tmp_path: Path) -> None:
    await add(fleet, "write")
    place = Place(tmp_path / "place")
    place.git("config", "core.hooksPath", ".husky/_")
    await hall.run("true", max_items=1, workspaces=place.worktrees())
    lack = f"core.hooksPath is .husky/_, and there is no such directory in {place.path}"
    assert hall.said[0] == f"commits of the runner run no hooks: {lack}"


async def test_a_success_completes_the_item_with_its_result(hall: Hall, fleet: Fleet) -> None:
    (item,) = await add(fleet, "write")
    await hall.run('echo \'{"result": {"n": 1}, "notes": {"plan": "p"}}\' > "$FLEET_RESULT_FILE"', max_items=1)
    assert (await seen(fleet, item))["role"] == "terminal"
    found = await notes(fleet, item)
    assert (found["result"], found["plan"]) == ('{"n":1}', "p")
    note = json.loads(found["run-1"])
    assert (note["attempt"], note["outcome"], note["costUsd"]) == (1, "done", None)
    assert hall.told("done after")
    assert list((hall.state / "live").iterdir()) == []


async def test_an_item_comes_with_the_end_of_the_one_before(hall: Hall, fleet: Fleet, calls: Calls) -> None:
    items = await add(fleet, "one", "two", "three", "four")
    calls.clear()
    await hall.run("true", max_items=3)
    claims = [call for call in calls if call["tool"] == "claim_item" and (call.get("start") or "releases" in call)]
    assert [len(call.get("releases", ())) for call in claims] == [0, 1, 1, 1]
    assert [call.get("start") for call in claims] == [True, True, True, None]
    # The last one is not even claimed.
    assert [await triggers(fleet, item) for item in items] == [["start", "complete"]] * 3 + [[]]


async def test_an_item_that_has_come_and_is_not_wanted_is_again_as_it_was(hall: Hall, fleet: Fleet) -> None:
    items = await add(fleet, "one", "two")

    class Stops(list[str]):
        """What is said; stops the runner when an attempt has ended."""

        def append(self, line: str) -> None:
            super().append(line)
            if "done after" in line and hall.runner is not None:
                hall.runner.stop()

    hall.said = Stops()
    await hall.run("true")
    assert [await triggers(fleet, item) for item in items] == [["start", "complete"], ["start", "untouched"]]
    assert (await seen(fleet, items[1]))["role"] == "queue"
    assert await held(fleet) == 0


async def test_a_tree_is_finished_in_order_and_ends_the_runner(hall: Hall, fleet: Fleet) -> None:
    (root,) = await add(fleet, "root")
    made = await add(fleet, "one", "two", "three", parentId=root)
    await add(fleet, "elsewhere")
    await chain(fleet, *made)
    script = """grep -q "Result of an earlier item" && echo after >> order
    echo "$FLEET_ITEM_ID" | tee -a order > "$FLEET_RESULT_FILE"
    """
    await hall.run(script, slots=3, selection={"ancestor": root, "until_tree": root})
    assert hall.file("order").split() == [made[0], "after", made[1], "after", made[2]]
    assert hall.told("is finished")
    assert [one["role"] for one in [await seen(fleet, item) for item in made]] == ["terminal"] * 3


async def test_an_idle_runner_says_why_nothing_is_offered(
    hall: Hall, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line whenever it becomes idle, and further ones as long as it is; the log does not repeat them."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(jobs, "WAIT_MS", 50)
    await add(fleet, "for others", requires=["cad"])
    line = "nothing is offered: 1 for agents with other capabilities"

    async def lines(most: int) -> None:
        await wait_until(lambda: hall.said.count(line) >= most, what=f"so many lines: {most}")

    async def claims() -> None:
        """Several more get nothing."""
        waits: set[str] = set()

        async def seen() -> bool:
            agents = (await fleet.call("get_context", {"agents": True}))["agents"]
            waits.update(one["waitingSince"] for one in agents if "waitingSince" in one)
            return len(waits) > 3

        await wait_until(seen, what="claims that get nothing")

    async def watch(runner: Runner) -> None:
        await lines(1)
        await claims()
        assert hall.said.count(line) == 1
        await add(fleet, "for everybody")
        await lines(2)
        assert hall.told("done after")
        assert hall.said.count(line) == 2
        monkeypatch.setattr(loop, "EXPLAINED_SECONDS", 0.0)
        await lines(3)
        runner.stop()

    watching: list[asyncio.Task[None]] = []
    await hall.run("true", begun=lambda runner: watching.append(asyncio.create_task(watch(runner))))
    await watching[0]
    assert [one for one in caplog.messages if "nothing is offered" in one] == []


async def test_failures_count_until_quarantine(hall: Hall, fleet: Fleet) -> None:
    (item,) = await add(fleet, "hard", maxAttempts=2)
    before = counted(ATTEMPTS, "failed"), sum(by_bucket(DURATION))
    await hall.run("echo why >&2; exit 3", max_items=2)
    assert (counted(ATTEMPTS, "failed"), sum(by_bucket(DURATION))) == (before[0] + 2, before[1] + 2)
    assert counted(RUNNING) == counted(PAUSED) == 0
    found = await context(fleet, item)
    assert found["item"]["role"] == "blocked"
    assert found["attempts"]["count"] == 2
    assert found["attempts"]["last"][-1]["detail"] == "exit code 3: why"
    assert {"run-1", "run-2"} <= (await notes(fleet, item)).keys()


async def test_handed_back_items_do_not_count_and_do_not_loop_fast(
    hall: Hall, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_SECONDS", 600.0)
    (item,) = await add(fleet, "later")
    running = asyncio.create_task(hall.run("echo >> runs; exit 75"))
    await wait_until(lambda: hall.told("claiming pauses"))
    assert hall.runner is not None
    hall.runner.stop()
    await running
    assert len(hall.file("runs").splitlines()) == breaker.FAILURES
    assert await attempts(fleet, item) == 0
    assert {"run-1", "run-1-2", "run-1-5"} <= (await notes(fleet, item)).keys()


async def test_a_pause_ends_with_one_item_that_is_tried(
    hall: Hall, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_SECONDS", 0.2)
    await add(fleet, *"abcdefgh", maxAttempts=0)
    script = "echo >> runs; [ $(wc -l < runs) -gt 6 ] || exit 75"
    await hall.run(script, slots=3, max_items=8)
    assert hall.told("claiming pauses")
    assert hall.told("claiming goes on")
    assert await held(fleet) == 0


@pytest.mark.parametrize("way", ["echo no way >&2; exit 65", 'echo \'{"outcome": "hopeless"}\' > $FLEET_RESULT_FILE'])
async def test_hopeless_items_are_quarantined(hall: Hall, fleet: Fleet, way: str) -> None:
    (item,) = await add(fleet, "impossible")
    await hall.run(way, max_items=1)
    found = await seen(fleet, item)
    assert (found["role"], found["statusLabel"]) == ("blocked", "quarantined")
    tried = (await context(fleet, item))["attempts"]
    assert (tried["count"], tried["last"][0]["reason"]) == (1, "hopeless")
    assert tried["last"][0]["detail"] in ("exit code 65: no way", "its result says hopeless: no reason given")
    assert hall.told("quarantined after")
    assert found["transitions"][0]["trigger"] == "quarantine"


async def test_a_broken_runner_stops_and_hands_back(hall: Hall, fleet: Fleet) -> None:
    made = await add(fleet, "one", "two")
    runner = await hall.run("exit 127")
    assert "127" in runner.broken
    assert [await attempts(fleet, item) for item in made] == [0, 0]
    assert await held(fleet) == 0


async def test_review_and_gates(hall: Hall, fleet: Fleet) -> None:
    (reviewed,) = await add(fleet, "r", type="reviewed")
    (proved,) = await add(fleet, "p", type="proved", maxAttempts=1)
    await hall.run("true", max_items=1, selection={"type": "reviewed"})
    assert (await seen(fleet, reviewed))["role"] == "review"
    await hall.run("true", max_items=1, selection={"type": "proved"})
    assert "proof" in (await context(fleet, proved))["attempts"]["last"][0]["detail"]
    (proved,) = await add(fleet, "q", type="proved")
    await hall.run(
        'echo \'{"notes": {"proof": "yes"}}\' > "$FLEET_RESULT_FILE"', max_items=1, selection={"type": "proved"}
    )
    assert (await seen(fleet, proved))["role"] == "terminal"


async def test_a_lost_claim_kills_the_command_and_leaves_the_item_alone(hall: Hall, fleet: Fleet) -> None:
    (item,) = await add(fleet, "contended")
    script = "trap '' INT TERM; echo $$ > begun; while :; do sleep 1; done"
    running = asyncio.create_task(hall.run(script, max_items=1, ttl=2))
    pid = await wait_until(lambda: hall.file("begun").strip())
    claim = (await context(fleet, item))["item"]
    assert hall.runner is not None
    # What an operator's release or a restored store looks like to the renewals.
    holder = (await context(fleet, item))["claimDetail"]["claimedBy"]
    await fleet.call("claim_item", {"releases": [{"itemId": item}]}, agent=holder)
    await wait_until(lambda: hall.told("lost after"))
    assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240
    assert claim["role"] == "work"
    hall.runner.stop()
    hall.runner.stop()
    await running
    assert json.loads((await notes(fleet, item))["run-1"])["outcome"] == "lost"
    assert (await seen(fleet, item))["usage"]["own"]["wallMs"] > 0
    assert list((hall.state / "untold").iterdir()) == []


async def test_a_stop_waits_for_commands(hall: Hall, fleet: Fleet) -> None:
    made = await add(fleet, "one", "two")
    running = asyncio.create_task(hall.run("echo > begun; while [ ! -e go ]; do sleep 0.02; done"))
    await wait_until(lambda: hall.file("begun"))
    assert hall.runner is not None
    hall.runner.stop()
    (hall.work / "go").touch()
    await running
    assert [(await seen(fleet, item))["role"] for item in made] == ["terminal", "queue"]


@pytest.mark.parametrize("twice", [True, False], ids=["second stop", "end of the drain"])
async def test_a_stop_ends_commands_that_take_too_long(hall: Hall, fleet: Fleet, twice: bool) -> None:
    (item,) = await add(fleet, "long")
    drain = 600.0 if twice else 0.1
    running = asyncio.create_task(hall.run("echo > begun; exec sleep 600", drain=drain))
    await wait_until(lambda: hall.file("begun"))
    assert hall.runner is not None
    hall.runner.stop()
    if twice:
        hall.runner.stop()
    await running
    assert await attempts(fleet, item) == 0
    assert await held(fleet) == 0
    assert json.loads((await notes(fleet, item))["run-1"])["outcome"] == "later"


async def test_limits_end_a_runner(hall: Hall, fleet: Fleet) -> None:
    await add(fleet, *"abcdef")
    await hall.run("true", slots=4, max_items=2)
    cost = 'echo \'{"usage": {"costUsd": 0.75}}\' > "$FLEET_RESULT_FILE"'
    runner = await hall.run(cost, max_cost=1.0)
    assert runner.cost == 1.5
    await hall.run("true", max_time=0.001)
    done = await fleet.call("query_items", {"operation": "search", "role": "terminal"})
    assert done["total"] == 4


async def test_without_room_nothing_is_claimed(hall: Hall, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await add(fleet, "one", "two")
    real = records.check_room

    def full(state: Path) -> None:
        if hall.file("runs"):
            raise records.NoRoom("no room for logs: 3 MiB are free")
        real(state)

    monkeypatch.setattr(records, "check_room", full)
    running = asyncio.create_task(hall.run("echo >> runs"))
    await wait_until(lambda: hall.told("claiming pauses"))
    assert hall.runner is not None
    hall.runner.stop()
    await running
    assert hall.file("runs") == "\n"


async def test_what_the_fleet_refuses_ends_the_runner(hall: Hall) -> None:
    with pytest.raises(Invalid, match="parentId"):
        await hall.run("true", selection={"parent": "no such thing"})


async def test_an_item_that_the_command_completes_itself_is_done(hall: Hall, fleet: Fleet) -> None:
    (root,) = await add(fleet, "parent")
    (child,) = await add(fleet, "child", parentId=root)

    async def complete() -> None:
        await wait_until(lambda: hall.file("begun"))
        await fleet.call("advance_item", {"transitions": [{"itemId": child, "trigger": "complete"}]})
        (hall.work / "go").touch()

    # The parent ends by the cascade while its command runs.
    completing = asyncio.create_task(complete())
    await hall.run(
        "echo > begun; while [ ! -e go ]; do sleep 0.02; done", max_items=1, selection={"type": None, "priority": None}
    )
    await completing
    assert hall.told("done after") or hall.told("lost")
