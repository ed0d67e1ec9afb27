"""The log of what operators do: outcomes, repetitions, what is never in it, readers that follow it, dead processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from coordinator.cli.acting import operator, user_at_host
from coordinator.errors import ToolFailure
from coordinator.operations import Act, ActRecord, ActResult, AuditLog, Operator, given_reason, log, record
from coordinator.operations.flows import pause_flow
from coordinator.operations.log import Target, Who
from coordinator.settings import Settings
from coordinator.store import Script, Store, keys
from coordinator.toolsets.actor import ActorEcho, Trusted, Verification
from tests.console.site import Json, Site
from tests.flows.client import Flows, gate
from tests.items.client import fresh_id
from tests.support.fleets import environment, fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

SECRET = "canary-0123456789abcdef"


def act(project: str, target: str = "7", detail: str = "") -> Act:
    return Act("pause_flow", "flow", target, project, detail)


def ada(store: Store, request: str = "") -> Operator:
    echo = ActorEcho("ada", "user")
    actor = Trusted("ada", echo, Verification("verified", "bearer", None))
    return Operator(store, Settings(), actor, "console", "it loops", request)


async def told(store: Store, project: str) -> list[tuple[str, str]]:
    """Outcomes and details, the first record first."""
    return [(one.outcome, one.detail) for one in await AuditLog(store).last(100, project)]


async def test_a_record_says_who_did_what_to_what_where_and_why(store: Store, project: str) -> None:
    async def do() -> ActResult:
        return ActResult("allowed", "as before", {"steps": 1})

    assert (await record(ada(store), act(project, detail="more"), do)).facts == {"steps": 1}
    (one,) = await AuditLog(store).last(5, project)
    who = Who("ada", "user", "console", verified=True)
    assert one == ActRecord(
        one.at, project, "pause_flow", "allowed", "it loops", who, Target("flow", "7"), "more; as before", "", one.entry
    )


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (ActResult("refused", "it is paused"), ("refused", "it is paused")),
        (ActResult("refused", SECRET, code="STALE"), ("refused", "STALE")),
        (ActResult("failed", SECRET, code=""), ("failed", "")),
        (ToolFailure("RESOURCE_NOT_FOUND", SECRET), ("refused", "RESOURCE_NOT_FOUND")),
        (ToolFailure("store_full", SECRET), ("failed", "store_full")),
        (ToolFailure("store_unavailable", SECRET), ("unknown", "")),
        (ToolFailure("deadline_exceeded", SECRET), ("unknown", "")),
        (asyncio.CancelledError(), ("unknown", "")),
        (ValueError(SECRET), ("unknown", "")),
    ],
    ids=repr,
)
async def test_each_end_of_an_act_has_its_outcome(
    store: Store, project: str, ends: ActResult | BaseException, outcome: tuple[str, str]
) -> None:
    async def do() -> ActResult:
        assert await told(store, project) == [("unknown", "")]
        if isinstance(ends, BaseException):
            raise ends
        return ends

    if isinstance(ends, BaseException):
        with pytest.raises(type(ends)):
            await record(ada(store), act(project), do)
    else:
        assert await record(ada(store), act(project), do) == ends
    assert await told(store, project) == [outcome]


async def test_of_repetitions_the_first_that_did_it_is_shown(store: Store, project: str) -> None:
    async def ended(outcome: log.Outcome, said: str) -> None:
        async def do() -> ActResult:
            return ActResult(outcome, said)

        await record(ada(store, "click"), act(project), do)

    for outcome, said in (("refused", "early"), ("allowed", "first"), ("allowed", "again"), ("refused", "late")):
        await ended(outcome, said)  # type: ignore[arg-type]
    assert await told(store, project) == [("allowed", "first")]


async def test_the_last_ones_are_found_behind_other_events(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do() -> ActResult:
        return ActResult("allowed")

    monkeypatch.setattr(log, "PAGE", 3)
    stream = keys.fleet_events.key(keys.FLEET)
    for number in range(8):
        await record(ada(store), act(project, str(number)), do)
        await store.command("XADD", stream, "*", "k", "identity.keys_changed", "i", "x")
        await record(ada(store), act("other"), do)
    found = await AuditLog(store).last(3, project)
    assert [one.target.id for one in found] == ["5", "6", "7"]
    assert await AuditLog(store).last(3, project, scanned=3) == found[2:]


async def test_records_of_earlier_releases_are_read(store: Store, project: str) -> None:
    old = ("k", "operator.drain", "i", "host:old", "a", "ada", "p", project, "r", "new memory", "q", "c")
    await store.command("XADD", keys.fleet_events.key(keys.FLEET), "*", *old)
    await store.command("XADD", keys.fleet_events.key(keys.FLEET), "*", *old[:-1], "d", "d", "0")
    first, second = await AuditLog(store).last(9, project)
    assert (first.action, first.outcome, first.reason) == ("drain", "allowed", "new memory")
    assert (first.who, first.target) == (Who("ada", "", "", verified=False), Target("", "host:old"))
    assert second.outcome == "unknown"


async def test_a_reader_that_follows_gets_each_act_once_with_its_outcome(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FOLLOW_SECONDS", 0.01)
    going_on, follows = asyncio.Event(), AuditLog(store).follow("0-0", project)

    async def slow() -> ActResult:
        await going_on.wait()
        return ActResult("allowed")

    async def quick() -> ActResult:
        return ActResult("refused", "it is paused")

    slowly = asyncio.create_task(record(ada(store), act(project, "slow"), slow))
    await wait_until(lambda: told(store, project), what="the slow one to begin")
    await record(ada(store), act(project, "quick"), quick)
    one = await anext(follows)
    assert (one.target.id, one.outcome) == ("quick", "refused")
    going_on.set()
    await slowly
    one = await anext(follows)
    assert (one.target.id, one.outcome) == ("slow", "allowed")
    # What is never settled comes, too.
    monkeypatch.setattr(log, "UNSETTLED_SECONDS", 0.0)

    async def died() -> ActResult:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await record(ada(store), act(project, "died"), died)
    one = await anext(follows)
    assert (one.target.id, one.outcome) == ("died", "unknown")
    await follows.aclose()


def test_a_reason_is_one_piece_of_text() -> None:
    assert given_reason("  it hangs\n") == "it hangs"
    assert given_reason(None) == ""
    assert given_reason("\udcff") == "?"
    for given, needed in (("", False), (" \n", False), ("x" * 501, False), (None, True)):
        with pytest.raises(ToolFailure, match="reason: must be 1 to 500"):
            given_reason(given, needed=needed)


async def test_neither_texts_nor_secrets_are_in_it(store: Store, project: str) -> None:
    """Only names, ids and the reason that was given."""
    site = Site(store, project)
    item = await site.create(SECRET, description=SECRET)
    other = await site.create(SECRET)
    note = {"itemId": item, "key": "decision", "role": "work", "body": SECRET, "expectedModifiedAt": ""}
    edge = {"fromItemId": other, "toItemId": item}
    calls: Sequence[tuple[str, Json]] = (
        ("manage_items", {"operation": "update", "items": [{"id": item, "priority": "high", "summary": SECRET}]}),
        ("manage_items", {"operation": "update", "items": [{"id": item, "priority": SECRET}]}),
        ("manage_notes", {"operation": "upsert", "notes": [note]}),
        ("manage_notes", {"operation": "upsert", "notes": [{**note, "key": "answer-1"}]}),
        ("manage_dependencies", {"operation": "create", "dependencies": [edge]}),
        ("advance_item", {"transitions": [{"itemId": item, "trigger": "block", "summary": "why"}]}),
        ("advance_item", {"transitions": []}),
        ("complete_tree", {"itemIds": [item, other], "trigger": "cancel"}),
    )
    for path, arguments in calls:
        await site(f"call/items/{path}", arguments)
    flow = await Flows(store, project).as_("ada", "*").create({"start": gate(SECRET, done=True)}, SECRET)
    for name in ("pause_flow", "retry_flow", "resume_flow"):
        await site(f"operate/{name}", {"id": flow, "reason": "why", "requestId": fresh_id()})
    await site("call/flows/workflow_cancel", {"id": flow})
    found = await AuditLog(store).last(100, project)
    assert SECRET not in msgspec.json.encode(found).decode()
    stream = await store.command("XRANGE", keys.fleet_events.key(keys.FLEET), "-", "+")
    assert SECRET.encode() not in b" ".join(text for _, flat in stream for text in flat)
    assert [(one.action, one.target.type, one.target.id, one.outcome, one.detail) for one in found] == [
        ("write_items", "item", "", "allowed", "create, title, description"),
        ("write_items", "item", "", "allowed", "create, title"),
        ("write_items", "item", item, "allowed", "update, summary, priority"),
        ("write_items", "item", item, "refused", "update, priority"),
        ("write_notes", "item", item, "allowed", "upsert, decision"),
        ("write_notes", "item", item, "refused", "upsert, answer-1"),
        ("write_dependencies", "item", item, "allowed", "create"),
        ("advance_items", "item", item, "allowed", "block"),
        ("advance_items", "item", "", "refused", "VALIDATION_ERROR"),
        ("end_tree", "item", f"{item}, {other}", "allowed", "cancel"),
        ("pause_flow", "flow", str(flow), "allowed", ""),
        ("retry_flow", "flow", str(flow), "refused", "it has no failed or cancelled steps to run again; it is paused"),
        ("resume_flow", "flow", str(flow), "allowed", ""),
        ("cancel_flow", "flow", str(flow), "allowed", ""),
    ]
    assert {(one.who.id, one.who.via, one.who.verified) for one in found} == {("ada", "console", True)}


@pytest.mark.parametrize(("before", "status"), [("pause_flow", "running"), ("record_act", "paused")])
async def test_what_a_killed_process_was_doing_stays_in_the_log(
    store: Store, project: str, redis_url: str, before: str, status: str
) -> None:
    """It died before the act, or between the act and its record: nobody knows, and the log says so."""
    flows = Flows(store, project)
    flow = await flows.create({"start": gate("wait", done=True)})
    line = [sys.executable, "-m", "tests.operations.killed", redis_url, project, str(flow), before]
    done = await asyncio.to_thread(subprocess.run, line, env=environment(), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (row,) = [one for one in await flows("workflow_list") if one["id"] == flow]
    assert row["status"] == status
    (one,) = await AuditLog(store).last(9, project)
    assert (one.action, one.outcome, one.reason, one.who.id) == ("pause_flow", "unknown", "it loops", user_at_host())
    # Whoever looks can do it again, and is told what had happened.
    again = await pause_flow(operator(store, Settings(), None), project, flow)
    assert again.outcome == ("allowed" if status == "running" else "refused")
    shown = fleet_command("audit-log", "tail", "--project", project, "--json", "--redis-url", redis_url)
    lines = [json.loads(text) for text in shown.stdout.splitlines()]
    assert [(one["outcome"], one["target"]) for one in lines] == [
        ("unknown", {"type": "flow", "id": str(flow)}),
        (again.outcome, {"type": "flow", "id": str(flow)}),
    ]


async def test_nothing_is_done_if_it_cannot_be_recorded(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.run

    async def without_log(script: Script[Any], *words: Any, **more: Any) -> Any:
        if script.name == "record_act":
            raise ToolFailure("store_unavailable", "no answer")
        return await run(script, *words, **more)

    flows = Flows(store, project)
    flow = await flows.create({"start": gate("wait", done=True)})
    monkeypatch.setattr(store, "run", without_log)
    with pytest.raises(ToolFailure):
        await pause_flow(operator(store, Settings(), None), project, flow)
    assert [one["status"] for one in await flows("workflow_list")] == ["running"]
