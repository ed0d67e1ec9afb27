"""Lists of sessions: what they show, their order and pages, and what leaves them."""

from __future__ import annotations

import random

import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.sessions.store.listing import (
    MOST,
    SessionRow,
    answered_checkpoints,
    list_sessions,
    look,
    sessions_of_item,
)
from tests.items.client import Client as Items
from tests.items.client import fresh_id
from tests.items.moments import next_ms, server_time
from tests.sessions.client import Sessions
from tests.sessions.pending import Pending
from tests.sessions.shown import payload

pytestmark = pytest.mark.anyio

MARK = 2**50


async def rows(sessions: Sessions, only_open: bool = False) -> list[SessionRow]:
    page = await list_sessions(sessions.store, sessions.project, only_open=only_open)
    assert page.next == ""
    return page.rows


async def shown(sessions: Sessions, token: str) -> SessionRow:
    sid = payload(token)["sid"]
    return next(row for row in await rows(sessions) if row.id == sid)


@pytest.mark.every_store
async def test_a_session_is_listed_with_its_state(sessions: Sessions) -> None:
    began = await server_time(sessions.store)
    token = await sessions.start("lab", agent="ann")
    row = await shown(sessions, token)
    assert (row.workflow, row.activity, row.checkpoint, row.yielded_at) == ("lab", "", "", 0)
    assert (row.item, row.holder, row.agent, row.completed, row.parent) == ("", "", "ann", False, "")
    assert began <= row.changed_at
    before = row.changed_at
    token = (await sessions("next_activity", session_token=token, activity_id="prepare")).token
    row = await shown(sessions, token)
    assert (row.activity, row.changed_at >= before) == ("prepare", True)
    await next_ms(sessions.store)
    child = await sessions.start("lab", agent="bob", parent_session_token=token)
    assert (await shown(sessions, child)).parent == row.id
    assert [one.id for one in await rows(sessions)] == [payload(one)["sid"] for one in (child, token)]


async def test_open_checkpoints_are_listed_apart_until_they_are_answered(sessions: Sessions) -> None:
    await sessions.start("lab")
    pending = await Pending.at(sessions)
    (row,) = await rows(sessions, only_open=True)
    assert (row.checkpoint, row.activity, row.id) == ("go", "prepare", payload(pending.handle)["sid"])
    assert 0 < row.yielded_at <= row.changed_at
    assert len(await rows(sessions)) == 2
    assert not (await pending.respond()).error
    assert await rows(sessions, only_open=True) == []
    assert (await shown(sessions, pending.handle)).checkpoint == ""
    assert len(await rows(sessions)) == 2


async def test_a_session_that_changes_moves_to_the_front(sessions: Sessions) -> None:
    first = await sessions.start("lab")
    second = await sessions.start("lab")
    await sessions.store.command("ZINCRBY", keys.session_index.key(sessions.project), -5_000, payload(second)["sid"])
    await sessions("next_activity", session_token=second, activity_id="prepare")
    assert [row.id for row in await rows(sessions)] == [payload(second)["sid"], payload(first)["sid"]]
    # A call that only reads is no change.
    await sessions("get_workflow", session_token=first)
    assert [row.id for row in await rows(sessions)] == [payload(second)["sid"], payload(first)["sid"]]


async def test_a_bound_item_and_its_holder_are_shown_after_a_take_over(
    sessions: Sessions, store: Store, project: str
) -> None:
    items = Items(store, project)
    item = await items.add("to be done", role="work")
    await items.claim("worker-1", item)
    start = {"agent_id": "worker-1", "workflow_id": "lab", "item_id": item}
    token = (await sessions("start_session", **start)).token
    row = await shown(sessions, token)
    assert (row.item, row.holder, row.agent) == (item.replace("-", ""), "worker-1", "worker-1")
    again = await sessions("start_session", agent_id="helper", session_token=token)
    assert (await shown(sessions, again.token)).agent == "helper"


async def test_pages_show_each_session_once_in_order(sessions: Sessions) -> None:
    """Also where many have changed at the same time; beside a model."""
    chosen = random.Random(3)
    store, project = sessions.store, sessions.project
    base = await server_time(store)
    marked: dict[str, tuple[int, bool]] = {}
    for number in range(60):
        sid = f"{number:04x}"
        marked[sid] = (base - chosen.choice([0, 1, 2, 500]), chosen.random() < 0.4)
        await store.command("HSET", keys.session.key(project, sid), "w", "lab", "a", "x", "la", "a")
        await store.command("PEXPIRE", keys.session.key(project, sid), 600_000)
        at, is_open = marked[sid]
        await store.command("ZADD", keys.session_index.key(project), at + (MARK if is_open else 0), sid)
    # These have expired.
    for sid in chosen.sample(sorted(marked), 7):
        await store.command("DEL", keys.session.key(project, sid))
        del marked[sid]
    for only_open in (False, True):
        wanted = sorted(((at, sid) for sid, (at, is_open) in marked.items() if is_open or not only_open), reverse=True)
        for limit in (1, 7, 59, 60, 61, 10_000):
            found: list[tuple[int, str]] = []
            after, pages = "", 0
            while True:
                page = await list_sessions(store, project, only_open=only_open, after=after, limit=limit)
                assert len(page.rows) <= min(limit, MOST)
                found += [(row.changed_at, row.id) for row in page.rows]
                after, pages = page.next, pages + 1
                if not after:
                    break
            assert found == wanted
            assert pages <= 60 // limit + 1


async def test_a_position_that_is_none_is_the_beginning(sessions: Sessions) -> None:
    await sessions.start("lab")
    for odd in ("x", "1", "/", "-1/a", "1e3/x\n"):
        assert len((await list_sessions(sessions.store, sessions.project, after=odd)).rows) == 1


async def test_sessions_leave_the_list_as_they_expire(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    sid = payload(token)["sid"]
    store, index = sessions.store, keys.session_index.key(sessions.project)
    await store.command("DEL", keys.session.key(sessions.project, sid), keys.session_trace.key(sessions.project, sid))
    assert await rows(sessions) == []
    days = 400 * 86_400_000
    await store.command("ZADD", index, "XX", await server_time(store) - days, sid)
    await store.command("ZADD", index, MARK + await server_time(store) - days, "other")
    while await store.command("ZSCORE", index, sid) is not None:
        await sessions.start("lab")
    assert await store.command("ZSCORE", index, "other") is None
    assert await store.command("ZCARD", index) > 0


# --- one session, and those of an item ----------------------------------------------------------------


async def test_the_sessions_of_an_item_are_listed(sessions: Sessions, store: Store, project: str) -> None:
    items = Items(store, project)
    item = await items.add("to be done", role="work")
    await items.claim("worker-1", item)
    start = {"agent_id": "worker-1", "workflow_id": "lab", "item_id": item}
    token = (await sessions("start_session", **start)).token
    await sessions.start("lab")
    (row,) = await sessions_of_item(store, project, item.replace("-", ""))
    assert row == await shown(sessions, token)
    for other in ("0" * 32, "", "*"):
        assert await sessions_of_item(store, project, other) == []


@pytest.mark.every_store
async def test_a_session_is_looked_at_without_a_token(sessions: Sessions) -> None:
    pending = await Pending.at(sessions)
    sid = payload(pending.handle)["sid"]
    store, project = sessions.store, sessions.project
    view = await look(store, project, sid)
    assert view is not None
    assert view.row == await shown(sessions, pending.handle)
    assert (view.row.checkpoint, view.answers, view.left) == ("go", [], [])
    names = ["start_session", "next_activity", "get_activity", "yield_checkpoint"]
    assert [event.name for event in view.events] == names
    assert (view.oldest, view.first, view.past) == (0, 0, 4)
    assert {(event.trace_id, event.s) for event in view.events} == {(sid, "ok")}
    # Nothing has changed: the handle is good, and the look is not in the trace.
    again = await look(store, project, sid)
    assert again is not None
    assert again._replace(now=view.now) == view
    assert not (await pending.respond()).error
    answered = await look(store, project, sid)
    assert answered is not None
    (answer,) = answered.answers
    assert (answer.given.checkpoint, answer.given.activity, answer.given.option) == ("go", "prepare", "proceed")
    assert answered.row.checkpoint == ""


async def test_a_trace_is_read_in_pages_from_its_end(sessions: Sessions) -> None:
    token = await sessions.start("lab")
    for _ in range(6):
        token = (await sessions("get_workflow", session_token=token)).token
    sid = payload(token)["sid"]
    store, project = sessions.store, sessions.project
    key = keys.session_trace.key(project, sid)
    every = await look(store, project, sid)
    assert every is not None
    assert len(every.events) == 7
    pages: list[str] = []
    before = -1
    while True:
        view = await look(store, project, sid, before=before, limit=3)
        assert view is not None
        assert view.past == 7
        pages = [event.span_id for event in view.events] + pages
        before = view.first
        if before == view.oldest:
            break
    assert pages == [event.span_id for event in every.events]
    # The oldest ones are cut off.
    await store.command("LPOP", key, 2)
    await store.command("HSET", keys.session.key(project, sid), "tb", 2)
    view = await look(store, project, sid)
    assert view is not None
    assert (view.oldest, view.first, view.past) == (2, 2, 7)
    assert [event.span_id for event in view.events] == pages[2:]
    early = await look(store, project, sid, before=1)
    assert early is not None
    assert early.events == []


async def test_a_session_that_is_none_is_not_found(sessions: Sessions) -> None:
    for odd in (fresh_id(), "", "*", "x:y", "a" * 65):
        assert await look(sessions.store, sessions.project, odd) is None


@pytest.mark.every_store
async def test_an_answered_checkpoint_is_in_the_history_once(sessions: Sessions) -> None:
    pending = [await Pending.at(sessions) for _ in range(3)]
    assert (await answered_checkpoints(sessions.store, sessions.project)).rows == []
    for checkpoint in pending:
        assert not (await checkpoint.respond()).error
    assert (await pending[0].respond()).error  # it is answered already
    first = await answered_checkpoints(sessions.store, sessions.project, limit=2)
    assert [one.session for one in first.rows] == [payload(checkpoint.handle)["sid"] for checkpoint in pending[:0:-1]]
    last = await answered_checkpoints(sessions.store, sessions.project, after=first.next, limit=2)
    (one,) = last.rows
    assert last.next == ""
    assert (one.session, one.workflow, one.activity) == (payload(pending[0].handle)["sid"], "lab", "prepare")
    assert (one.checkpoint, one.how, one.option, one.via) == ("go", "option_id", "proceed", "")
    assert (one.asked_by, one.by) == ("orchestrator", "orchestrator")
