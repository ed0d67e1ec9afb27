"""workflow.get with waitMs: what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from coordinator.feed import waits
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, states
from tests.gateway.workflows import Working, sh
from tests.support.parked import parked
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

HELD = "touch {0}/began; while ! [ -e {0}/gate ]; do sleep 0.02; done; exit $(cat {0}/gate)"


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is ended by the read that comes after 10 s."""
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)


def wait(lab: Lab, started: Json, condition: str, ms: int = 50_000, **more: Any) -> Any:
    return lab("workflow.get", workflowId=started["workflowId"], waitFor=condition, waitMs=ms, **more)


@pytest.mark.parametrize("code", [0, 1])
async def test_attention_is_needed_when_an_executor_is_done(working: Working, tmp_path: Path, code: int) -> None:
    """Also if it fails, which moves nothing."""
    executor = sh(HELD.format(tmp_path))
    lab = await working(
        workflows={
            "w": states(
                a={"transitions": {"go": {"target": "b", "executor": executor}}},
                b={"transitions": {"end": {"target": "c"}}},
                c={"terminal": True},
            )
        }
    )
    started = await lab.start("w")
    assert (await wait(lab, started, "attention", 0))["waited"]["met"]
    submitting = asyncio.create_task(lab.reply("workflow.submit", **lab.link(started, "go")))
    await wait_until((tmp_path / "began").exists)
    waiting = {name: await parked(lab.room, wait(lab, started, name)) for name in ("attention", "changed", "ended")}
    (tmp_path / "gate.new").write_text(str(code))
    (tmp_path / "gate.new").rename(tmp_path / "gate")
    answer = await waiting["attention"]
    assert answer["waited"]["met"]
    assert "inFlight" not in answer
    assert answer["state"] == "ab"[code == 0]
    assert ("lastFailure" in answer) == (code == 1)
    assert (await waiting["changed"])["waited"]["met"]
    assert not waiting["ended"].done()
    await submitting
    if code:
        waiting["ended"].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting["ended"]
    else:
        await lab.follow(await lab.get(started), "end")
        assert (await waiting["ended"])["terminal"]


async def test_attention_is_that_of_the_caller(make_lab: MakeLab) -> None:
    lab = make_lab(
        workflows={
            "w": states(
                a={
                    "onEnter": {"executor": {"kind": "human"}},
                    "transitions": {"yes": {"target": "b", "actor": "human"}},
                },
                b={"terminal": True},
            )
        }
    )
    bot, ann = lab.as_("bot", "agent"), lab.as_("ann", "human")
    started = await bot.start("w")
    assert (await wait(ann, started, "attention"))["waited"]["met"]
    waiting = await parked(bot.room, wait(bot, started, "attention"))
    await ann.follow(await ann.get(started), "yes")
    answer = await waiting
    assert answer["terminal"]
    assert answer["waited"]["met"]


async def test_refusals(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"w": states(a={"terminal": True})})
    with pytest.raises(Exception, match="waitFor: 'done' is not allowed; allowed: ended, attention, changed"):
        await wait(lab, {"workflowId": "wf_" + "0" * 16}, "done")
    refused = await lab.refused("workflow.get", workflowId="wf_" + "0" * 16, waitFor="ended", waitMs=50_000)
    assert refused["error"]["code"] == "WORKFLOW_NOT_FOUND"
