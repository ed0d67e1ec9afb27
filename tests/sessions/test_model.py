"""Any sequence of calls with any tokens of a session matches the plain model.

Deeper: ``MODEL_EXAMPLES=1000 pytest tests/sessions/test_model.py``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.definitions import Definitions
from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.sessions.rules import tokens
from coordinator.toolsets.sessions.store.listing import list_sessions
from tests.sessions.client import Answer, Sessions
from tests.sessions.model import ACTIVITIES, CHECKPOINTS, ENDS, Model, Shown, shown
from tests.sessions.shown import unsigned
from tests.support import leaks

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))
PROJECT = "sessions-model"

TARGETS = st.sampled_from([*ACTIVITIES, "prepare", "prepare", *ENDS, "nowhere"])
CHOICES = st.sampled_from([0, 0, 1, 2, 3])
"""An option of the pending checkpoint, or an invalid one."""
NAMES = st.sampled_from([*CHECKPOINTS, "maybe", "maybe", "nope"])
TOKEN = st.integers(0, 5)
"""The age of the token shown: 0 is the newest."""
NEWEST = st.just(0)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), TOKEN),
        st.tuples(st.just("move"), TOKEN, TARGETS),
        st.tuples(st.just("yields"), TOKEN, NAMES),
        st.tuples(st.just("yields"), NEWEST, NAMES),
        st.tuples(st.just("responds"), TOKEN, CHOICES),
        st.tuples(st.just("responds"), TOKEN, CHOICES),
        st.tuples(st.just("responds"), NEWEST, CHOICES),
        st.tuples(st.just("resumes"), TOKEN),
        st.tuples(st.just("joins"), TOKEN),
        st.tuples(st.just("adopts"), TOKEN),
        st.tuples(st.just("looks"), TOKEN),
        st.sampled_from(["ask twice", "finish"]),
    ),
    min_size=15,
    max_size=40,
)
Step = tuple[Any, ...]
TOGETHER: dict[str, tuple[Step, ...]] = {
    "ask twice": (("move", 0, "prepare"), ("yields", 0, "go"), ("responds", 0, 0), ("yields", 0, "go")),
    "finish": (("move", 0, "report"), ("move", 0, "__terminal__")),
}
"""Calls that quickly lead to critical states."""


def option(model: Model, choice: int) -> str:
    """The option for a number."""
    known = CHECKPOINTS.get(model.pending, ("fine",))
    return "nonsense" if choice == 3 else known[choice % len(known)]


class World:
    """One server's sessions, and an event loop."""

    def __init__(self, url: str, definitions: Definitions) -> None:
        self.runner = asyncio.Runner()
        self.store = Store(url, timeout_ms=5000)
        self.runner.run(self.store.open())
        self.fronts = [Sessions(self.store, PROJECT, definitions) for _ in range(2)]

    def close(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


@pytest.fixture(scope="module")
def world(redis_url: str, definitions: Definitions) -> Iterator[World]:
    world = World(redis_url, definitions)
    yield world
    world.close()
    with redis_client(parse(redis_url), PROJECT) as client:
        complaints = leaks.leaked_keys(client, PROJECT)
        leaks.delete_keys(client, PROJECT)
    assert not complaints


async def carry_out(world: World, given: list[Step | str]) -> None:
    model = Model()
    held: list[tuple[str, Shown]] = [(await world.fronts[0].start("lab"), model.given)]
    steps = [step for one in given for step in (TOGETHER[one] if isinstance(one, str) else (one,))]
    for number, (what, age, *more) in enumerate([("move", 0, "prepare"), *steps]):
        text, token = held[max(0, len(held) - 1 - age)]
        call = world.fronts[number % 2]
        answer: Answer
        if what == "read":
            expected = model.read(token)
            answer = await call.attempt("get_skills", session_token=text)
        elif what == "move":
            expected = model.move(token, more[0])
            answer = await call.attempt("next_activity", session_token=text, activity_id=more[0])
        elif what == "yields":
            expected = model.yields(token, more[0])
            answer = await call.attempt("yield_checkpoint", session_token=text, checkpoint_id=more[0])
        elif what == "responds":
            chosen = option(model, more[0])
            expected = model.responds(token, chosen)
            answer = await call.attempt("respond_checkpoint", checkpoint_handle=text, option_id=chosen)
        elif what == "resumes":
            expected = model.resumes(token)
            answer = await call.attempt("resume_checkpoint", session_token=text)
        elif what == "looks":
            expected = model.looks()
            answer = await call.attempt("get_workflow_status", session_token=text)
            check_status(model, answer)
        else:
            expected = model.joins()
            answer = await call.attempt("start_session", session_token=text if what == "joins" else unsigned(text))
            assert ("adopted" in answer) is (what == "adopts")
        assert answer.error == expected, (what, more, answer.text)
        if not expected:
            assert shown(tokens.decode_unsigned(answer.token)) == model.given
            held.append((answer.token, model.given))
    last = held[-1][0]
    status = await world.fronts[1]("get_workflow_status", session_token=last)
    check_status(model, status)
    await check_lists(world, model, tokens.decode_unsigned(last).sid)
    if not model.pending:
        seen = await world.fronts[0]("get_trace", session_token=last)
        assert [(event["name"], event["s"] == "ok") for event in seen["events"]] == model.trace


async def check_lists(world: World, model: Model, session: str) -> None:
    """It changed last, so it is on the first page."""
    every, with_checkpoint = [
        {row.id: row for row in (await list_sessions(world.store, PROJECT, only_open=only)).rows}
        for only in (False, True)
    ]
    row = every[session]
    assert (row.activity, row.checkpoint, row.completed) == (model.act, model.pending, model.completed)
    assert (session in with_checkpoint) == bool(model.pending)


def check_status(model: Model, answer: Answer) -> None:
    assert answer["status"] == model.status
    assert answer["current_activity"] == (model.act or "none")
    assert answer["completed_activities"] == model.left
    assert answer.result.get("active_checkpoint", {}).get("checkpoint_id", "") == model.pending
    last = answer.result.get("last_checkpoint")
    assert (last and (last["checkpoint_id"], last["resolved_option"])) == model.last


@pytest.mark.timeout(300 + EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(STEPS)
def test_any_sequence_of_calls_follows_the_model(world: World, steps: list[Step | str]) -> None:
    world.runner.run(carry_out(world, steps))
