"""Racing submits over several front-ends and workers: one takes effect per version, whatever executors do."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.store import Store
from coordinator.store.idempotency import recorded_reply
from coordinator.toolsets.gateway import operations
from coordinator.toolsets.gateway.metrics import SUBMITS
from coordinator.toolsets.gateway.store.instances import InstanceStore
from coordinator.toolsets.metrics import RESTARTS_OF_OPERATIONS
from tests.gateway.lab import Json, Lab, Worker, section, settings_of, states
from tests.gateway.workflows import COUNT, sh
from tests.support.counts import counted
from tests.support.schemas import decoded
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

FRONTS = 3


@pytest.fixture
async def fronts(store: Store, redis_url: str, project: str, tmp_path: Path) -> AsyncIterator[list[Lab]]:
    """Front-ends with a connection of their own each, and two workers."""
    note = f"echo x >> {tmp_path}/runs"
    held = f"echo x >> {tmp_path}/holds; while ! [ -e {tmp_path}/gate ]; do sleep 0.02; done"
    workflow = states(
        a={
            "transitions": {
                "plain": {"target": "a", **COUNT},
                "noop": {"target": "a", "executor": {"kind": "noop"}, **COUNT},
                "runs": {"target": "a", "executor": sh(note), **COUNT},
                "held": {"target": "a", "executor": sh(held)},
                "fails": {"target": "a", "executor": sh(f"{note}; exit 1"), **COUNT},
            }
        }
    )
    settings = settings_of(section(workflows={"w": workflow}), project)
    stores = [Store(redis_url, timeout_ms=5000) for _ in range(FRONTS)]
    for one in stores:
        await one.open()
    labs = [Lab(one, project, settings) for one in stores]
    workers = [await Worker(store, settings, f"w{number}").start() for number in range(2)]
    yield labs
    for worker in workers:
        await worker.stop()
    for lab, one in zip(labs, stores, strict=True):
        await lab.close()
        await one.close()


@pytest.mark.parametrize("seed", range(3))
async def test_one_submit_takes_effect_per_version(fronts: list[Lab], tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    at = await fronts[0].start("w")
    total: Counter[str] = Counter()
    for _ in range(6):
        names = [pick.choice(["plain", "noop", "runs", "fails"]) for _ in range(12)]

        async def submit(number: int, name: str, at: Json = at) -> tuple[str, str]:
            body, failed = await fronts[number % FRONTS].reply("workflow.submit", **fronts[0].link(at, name))
            return name, body["error"]["code"] if failed else "ok"

        outcomes = await asyncio.gather(*(submit(number, name) for number, name in enumerate(names)))
        results = Counter(code for _, code in outcomes)
        assert set(results) <= {"ok", "STALE_WORKFLOW_VERSION", "EXECUTOR_FAILED"}
        # Failed ones left the version unchanged, so another could succeed; never two.
        assert results["ok"] <= 1
        total += results
        total["run"] += sum(code == "EXECUTOR_FAILED" or (code == "ok" and name == "runs") for name, code in outcomes)
        before, at = at, await fronts[1].get(at)
        assert at["version"] == before["version"] + results["ok"]
        assert "inFlight" not in at
    assert at["version"] == 1 + total["ok"]
    assert at["context"].get("n", 0) == total["ok"]
    runs = (tmp_path / "runs").read_text().split() if (tmp_path / "runs").exists() else []
    assert len(runs) == total["run"]


async def test_a_request_repeated_on_all_front_ends_takes_effect_once(fronts: list[Lab]) -> None:
    at = await fronts[0].start("w")
    asked = {**fronts[0].link(at, "noop"), "requestId": "the same"}
    before = counted(SUBMITS, "ok")
    answers = await asyncio.gather(*(lab.reply("workflow.submit", **asked) for lab in fronts * 4))
    # Calls during the first one wait for it; then all have its answer.
    assert {(body["version"], failed) for body, failed in answers} == {(2, False)}
    again = [await lab("workflow.submit", **asked) for lab in fronts]
    assert again == [again[0]] * len(again)
    assert (await fronts[0].get(at))["context"] == {"n": 1}
    assert counted(SUBMITS, "ok") == before + 1


@pytest.mark.parametrize("meanwhile", ["under way", "over"])
async def test_a_retry_that_overtakes_the_record_gets_the_first_answer(
    fronts: list[Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """It read the record before it was written, and the instance after."""
    at = await fronts[0].start("w")
    asked = {**fronts[0].link(at, "held"), "requestId": f"overtaking, {meanwhile}"}
    first = asyncio.ensure_future(fronts[0].reply("workflow.submit", **asked))
    await wait_until(lambda: (tmp_path / "holds").exists(), what="the command")
    if meanwhile == "over":
        (tmp_path / "gate").touch()
        await first
    missed = 0

    async def overtaken(*of: Any) -> bytes | None:
        nonlocal missed
        missed += 1
        if missed == 1:
            return None
        (tmp_path / "gate").touch()
        return await recorded_reply(*of)

    monkeypatch.setattr(operations, "recorded_reply", overtaken)
    second = await fronts[1].reply("workflow.submit", **asked)
    assert second == await first
    assert not second[1]
    assert (tmp_path / "holds").read_text().split() == ["x"]


@pytest.mark.parametrize("loser", ["plain", "fails"])
async def test_the_loser_waits_two_seconds_whatever_the_deadline(
    store: Store, fronts: list[Lab], project: str, tmp_path: Path, loser: str
) -> None:
    settings = msgspec.structs.replace(fronts[0].settings, request_deadline_ms=400, redis_timeout_ms=300)
    lab = Lab(store, project, settings)
    try:
        at = await lab.start("w")
        asked = lab.link(at, loser)
        # Too short a deadline does not apply to the call.
        assert lab.tools["workflow.submit"].may_wait(decoded(lab.tools["workflow.submit"], asked))
        winner = asyncio.ensure_future(fronts[1].reply("workflow.submit", **lab.link(at, "held")))
        await wait_until(lambda: (tmp_path / "holds").exists(), what="the command")
        began = asyncio.get_running_loop().time()
        refused = await lab.refused("workflow.submit", **asked)
        assert 1.9 < asyncio.get_running_loop().time() - began < 10
        assert refused["error"]["code"] == "STALE_WORKFLOW_VERSION"
        assert refused["error"]["details"]["inFlight"] == "held"
        assert refused["error"]["details"]["retryAfterMs"] > 0
        (tmp_path / "gate").touch()
        body, failed = await winner
        assert (body["version"], failed) == (2, False)
    finally:
        await lab.close()


def restarts(operation: str) -> float:
    """How often operations of this process were retried."""
    return counted(RESTARTS_OF_OPERATIONS, operation)


async def test_a_retried_submit_is_counted(fronts: list[Lab], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one came between its read of the instance and its own transition."""
    at = await fronts[0].start("w")
    before, begin, others = restarts("workflow.submit"), InstanceStore.begin, [fronts[1]]

    async def overtaken(*given: Any) -> Any:
        if others:
            assert (await others.pop().follow(at, "plain"))["version"] == 2
        return await begin(*given)

    monkeypatch.setattr(InstanceStore, "begin", overtaken)
    refused = await fronts[0].follow_refused(at, "plain")
    assert refused["error"]["code"] == "STALE_WORKFLOW_VERSION"
    assert restarts("workflow.submit") == before + 1
    await fronts[0].follow(await fronts[0].get(at), "plain")
    assert restarts("workflow.submit") == before + 1, "nobody came between"


async def test_racing_timeouts_of_an_instance_are_counted(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = states(open={"transitions": {"close": {"target": "late"}}}, late={"terminal": True})
    timed = {**workflow, "timeoutMs": 50, "onTimeout": {"target": "late"}}
    lab = Lab(store, project, settings_of(section(workflows={"w": timed}), project))
    before, expire = restarts("workflow.get"), InstanceStore.expire
    moved: list[bool] = []

    async def both(*given: Any) -> bool:
        moved.append(await expire(*given))
        moved.append(await expire(*given))
        return moved[-1]

    monkeypatch.setattr(InstanceStore, "expire", both)
    try:
        at = await lab.start("w")

        async def over() -> bool:
            return bool((await lab.get(at))["version"] == 2)

        await wait_until(over, what="the timeout")
    finally:
        await lab.close()
    assert moved == [True, False]
    assert restarts("workflow.get") == before + 1
