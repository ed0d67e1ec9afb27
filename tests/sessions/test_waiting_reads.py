"""get_workflow_status with waitMs: what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.feed import waits
from tests.sessions.client import Sessions
from tests.support.parked import parked

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is ended by the read that comes after 10 s."""
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)


def wait(sessions: Sessions, token: str, condition: str, ms: int = 50_000, **more: Any) -> Any:
    return sessions("get_workflow_status", session_token=token, waitFor=condition, waitMs=ms, **more)


async def test_a_checkpoint_its_answer_and_the_end(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    checkpoint = await parked(sessions.room, wait(sessions, token, "checkpoint"))
    changed = await parked(sessions.room, wait(sessions, token, "changed"))
    ended = await parked(sessions.room, wait(sessions, token, "ended"))
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="go"))["checkpoint_handle"]
    answer = await checkpoint
    assert answer["waited"]["met"]
    assert answer["active_checkpoint"]["checkpoint_id"] == "go"
    assert (await changed)["status"] == "blocked"
    after = (await wait(sessions, token, "changed", 0))["waited"]["after"]
    answered = await parked(sessions.room, wait(sessions, token, "changed", after=after))
    await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="plain")
    assert (await answered)["last_checkpoint"]["resolved_option"] == "plain"
    assert not ended.done()
    assert not (await wait(sessions, token, "ended", 0))["waited"]["met"]
    ended.cancel()


async def test_a_bad_value_is_refused(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    refused = await sessions.refusal("get_workflow_status", session_token=token, waitFor="done", waitMs=1)
    assert "waitFor: 'done' is not allowed; allowed: checkpoint, changed, ended" in refused.text
