"""Timeouts, approvals, sub-workflows, flows and waiting calls."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.cli.acting import operator
from coordinator.errors import ToolFailure
from coordinator.operations.approvals import answer_approval
from coordinator.store import Store, keys
from coordinator.toolsets.gateway import durations, operations
from coordinator.toolsets.gateway.store import audit
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.instances import Instance, InstanceStore
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, Worker, states
from tests.gateway.workflows import APPROVAL, COUNT, Working, auto, sh, timed
from tests.support.between import before
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def reached(lab: Lab, answer: Json, state: str) -> Json:
    """The instance once it is in a state, without reading it through the tools."""
    key = keys.run.key(lab.project, answer["workflowId"])

    async def there() -> bool:
        return bool(await lab.store.command("HGET", key, "z") == state.encode())

    await wait_until(there, what=f"state {state}")
    return await lab.get(answer)


async def test_the_sweep_times_out_instances_that_nobody_reads(working: Working) -> None:
    lab = await working(workflows={"w": timed("late")})
    started = await lab.start("w")
    found = await reached(lab, started, "late")
    assert (found["version"], [link["args"]["transition"] for link in found["links"]]) == (2, ["anyway"])
    refused = await lab.follow_refused(started, "close")
    assert refused["error"]["code"] == "STALE_WORKFLOW_VERSION"
    assert (await lab.follow(found, "anyway"))["terminal"]
    types = [entry.type for entry in await lab.audit(started)]
    assert types.count("workflow.timed_out") == 1


async def test_a_timeout_during_a_store_outage_is_carried_out_afterwards(
    working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked = InstanceStore.read, 0

    async def gone(self: InstanceStore, *about: str) -> Instance | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ToolFailure("store_unavailable", "the store does not answer")
        return await read(self, *about)

    lab = await working(workflows={"w": timed("late")})
    started = await lab.start("w")
    monkeypatch.setattr(InstanceStore, "read", gone)
    assert (await reached(lab, started, "late"))["version"] == 2


@pytest.mark.parametrize("how", ["defect", "poisoned"])
async def test_a_failed_timeout_is_retried(working: Working, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Otherwise the instance would not move before somebody reads it."""
    read, asked = InstanceStore.read, 0

    async def broken(self: InstanceStore, *about: str) -> Instance | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("a defect")
        return await read(self, *about)

    lab = await working(workflows={"w": timed("late")})
    started = await lab.start("w")
    if how == "defect":
        monkeypatch.setattr(InstanceStore, "read", broken)
    else:
        step = keys.step.key(lab.project, f"{started['workflowId']}_t")
        assert await lab.store.command("HGET", step, "s") == b"d"
        await lab.store.command("HSET", step, "x", msgspec.msgpack.encode({"v": "poisoned", "c": 3}))
    assert (await reached(lab, started, "late"))["version"] == 2


async def test_a_read_carries_out_the_timeout(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"w": timed("late", 50)})  # no worker
    started = await lab.start("w")
    await wait_until(lambda: _version(lab, started, 2), what="the timeout")
    refused = await lab.follow_refused(started, "close")
    assert refused["error"]["code"] == "STALE_WORKFLOW_VERSION"
    assert [entry.type for entry in await lab.audit(started)].count("workflow.timed_out") == 1


async def test_a_timeout_planned_from_a_stale_version_is_planned_again(
    make_lab: MakeLab, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise changes in between would be undone."""
    workflow = timed("late", 60_000)
    workflow["states"]["open"]["transitions"]["count"] = {"target": "open", **COUNT}
    lab = make_lab(workflows={"w": {**workflow, "initialContext": {"n": 0}}})  # no worker
    started = await lab.start("w")
    deadline = ("HSET", keys.run.key(project, started["workflowId"]), "d")

    async def move() -> None:
        # As if this had come first, before the deadline.
        await store.command(*deadline, 2**45)
        await lab.follow(started, "count")
        await store.command(*deadline, 1)

    before(monkeypatch, store, "expire_instance", move)
    await store.command(*deadline, 1)
    found = await lab.get(started)
    assert (found["state"], found["version"], found["context"]) == ("late", 3, {"n": 1})


async def test_an_operation_after_a_timeout_is_not_called_a_start(make_lab: MakeLab) -> None:
    late = {"onEnter": {"executor": sh("true")}}
    lab = make_lab({"request_deadline_ms": 200}, workflows={"w": timed("late", 50, late=late)})  # no worker
    started = await lab.start("w")

    async def late_now() -> bool:
        return "inFlight" in await lab.get(started)

    await wait_until(late_now, what="the timeout")
    refused = await lab.follow_refused(started, "close")
    assert "What follows its start, or the end of its time, is being carried out." in refused["error"]["message"]
    assert refused["error"]["details"]["inFlight"] == ""


async def _version(lab: Lab, answer: Json, version: int) -> bool:
    return bool((await lab.get(answer))["version"] == version)


@pytest.mark.parametrize(("target", "outcome"), [("expired", "timed_out"), (None, "timed_out")])
async def test_a_workflow_may_end_by_timeout(working: Working, target: str | None, outcome: str) -> None:
    lab = await working(workflows={"w": timed(target)})
    started = await lab.start("w")
    found = await reached(lab, started, target or "open")
    found = await wait_until(lambda: _ended(lab, started), what="its end")
    assert (found["version"], found["outcome"], found["links"]) == (2, outcome, [])
    assert await lab.store.command("EXISTS", keys.step.key(lab.project, f"{started['workflowId']}_t")) == 0


async def _ended(lab: Lab, answer: Json) -> Json:
    found = await lab.get(answer)
    return found if found.get("terminal") else {}


async def test_an_ended_workflow_does_not_time_out(make_lab: MakeLab) -> None:
    lab = make_lab(workflows={"w": timed("late", 60_000)})
    closed = await lab.follow(await lab.start("w"), "close")
    assert await lab.store.command("EXISTS", keys.step.key(lab.project, f"{closed['workflowId']}_t")) == 0
    assert await lab.store.command("ZCARD", keys.step_timers.key(lab.project)) == 0


async def test_a_timeout_executes_the_entry_and_continues(working: Working) -> None:
    late = {"onEnter": {"executor": sh("echo 7"), "output": {"n": "$.output.json"}}}
    lab = await working(
        workflows={
            "w": {
                **states(
                    open={"transitions": {"close": {"target": "closed"}}},
                    late={**late, "transitions": {"tidy": auto("closed", **COUNT)}},
                    closed={"terminal": True},
                ),
                "timeoutMs": 300,
                "onTimeout": {"target": "late"},
            },
            "broken": timed("late", 300, late={"onEnter": {"executor": sh("exit 1")}}),
        }
    )
    found = await reached(lab, await lab.start("w"), "closed")
    assert (found["version"], found["context"]) == (3, {"n": 8})
    # Nothing keeps a timed-out workflow in its state.
    found = await reached(lab, await lab.start("broken"), "late")
    assert found["version"] == 2


async def test_a_timeout_stops_the_operation_in_progress(working: Working, tmp_path: Path) -> None:
    running = sh(f"touch {tmp_path}/began; sleep 30; touch {tmp_path}/ended")
    workflow = timed("late", 5000)
    workflow["states"]["open"]["transitions"]["close"]["executor"] = running
    lab = await working(workflows={"w": workflow})
    started = await lab.start("w")
    submitted = asyncio.create_task(lab.reply("workflow.submit", **lab.link(started, "close")))
    await wait_until((tmp_path / "began").exists, what="the command")
    answer, failed = await submitted
    assert failed
    assert answer["error"]["code"] == "STALE_WORKFLOW_VERSION"
    assert answer["error"]["details"] == {"timedOut": True}
    assert (answer["state"], answer["version"]) == ("late", 2)
    found = await lab.get(started)
    assert (found["state"], found["version"]) == ("late", 2)
    assert "inFlight" not in found
    assert not (tmp_path / "ended").exists()


# --- people ---------------------------------------------------------------------------------------


async def test_an_answer_applies_only_to_its_own_approval(
    make_lab: MakeLab, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the next one, if the first is withdrawn while it is answered at the terminal."""
    workflow = deepcopy(APPROVAL)
    workflow["states"]["asked"]["transitions"]["back"] = {"target": "written"}
    lab = make_lab(workflows={"w": workflow})
    asked = await lab.follow(await lab.start("w"), "ask")

    async def change() -> None:
        await lab.follow(await lab.follow(asked, "back"), "ask")

    before(monkeypatch, store, "read_instance", change)
    by = operator(store, lab.settings, "it is late")
    result = await answer_approval(by, project, asked["context"]["request"], "approve", {}, "", ())
    assert result[:2] == ("refused", "it is withdrawn already, by anonymous with back")
    assert (await lab.get(asked))["state"] == "asked"


async def test_people_are_asked_and_answer_by_a_transition(make_lab: MakeLab, store: Store, project: str) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    asking = lab.as_("ana", "human")
    asked = await asking.follow(await asking.start("w"), "ask")
    assert asked["state"] == "asked"
    (pending,) = asked["pendingHuman"]
    assert pending["requestId"] == asked["context"]["request"]
    assert pending["queue"] == "reviews"
    assert [one["kind"] for one in asked["evidence"]] == ["human_request"]
    records = AuditStore(store, lab.settings)
    (open_one,) = await records.open_approvals(project)
    assert (open_one.workflow, open_one.queue, open_one.requester) == (asked["workflowId"], "reviews", "ana")
    # Four eyes: not the requester.
    refused = await asking.follow_refused(asked, "approve")
    assert refused["error"]["code"] == "ACTOR_MISMATCH"
    assert refused["error"]["details"] == {"distinctFrom": "requester"}
    # Moves within the state leave the approval open.
    commented = await asking.follow(asked, "comment")
    assert commented["pendingHuman"] == asked["pendingHuman"]
    approved = await lab.as_("bo", "human").follow(commented, "approve")
    assert approved["terminal"]
    assert "pendingHuman" not in approved
    assert await records.open_approvals(project) == []
    closed = await records.approval(project, pending["requestId"])
    assert closed is not None
    assert (closed.status, closed.by, closed.answer) == ("resolved", "bo", "approve")
    types = [entry.type for entry in await lab.audit(asked)]
    assert types.count("human.approval.requested") == types.count("human.approval.resolved") == 1


async def test_all_pending_approvals_are_listed(
    make_lab: MakeLab, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    started = [await lab.start("w") for _ in range(9)]
    asked = [await lab.follow(one, "ask") for one in started[:4]]
    asked += await asyncio.gather(*(lab.follow(one, "ask") for one in started[4:]))
    for page in (1, 2, 9, 500):
        monkeypatch.setattr(audit, "PAGE", page)
        found = await AuditStore(store, lab.settings).open_approvals(project)
        assert sorted(one.workflow for one in found) == sorted(one["workflowId"] for one in asked)
        assert [one.asked_at for one in found] == sorted(one.asked_at for one in found)


async def test_an_obsolete_approval_is_withdrawn(make_lab: MakeLab, store: Store, project: str) -> None:
    lab = make_lab(workflows={"w": APPROVAL})
    asked = await lab.follow(await lab.start("w"), "ask")
    await lab.follow(asked, "drop")
    records = AuditStore(store, lab.settings)
    assert await records.open_approvals(project) == []
    closed = await records.approval(project, asked["pendingHuman"][0]["requestId"])
    assert closed is not None
    assert closed.status == "withdrawn"
    assert await records.approval(project, "hr_0") is None


# --- sub-workflows and flows --------------------------------------------------------------------------

CHILD = states(
    begin={
        "transitions": {"compute": auto("asks", executor=sh('echo "$1"', "$.input.n"), output={"n": "$.output.json"})}
    },
    asks={"transitions": {"answer": {"target": "done", "output": {"answer": "$.arguments.value"}}}},
    done={"terminal": True},
)
QUICK = states(
    begin={"transitions": {"compute": auto("done", output={"double": {"multiply": ["$.input.n", 2]}})}},
    done={"terminal": True},
    never={"terminal": True, "outcome": "failure"},
)
FAILING = states(begin={"transitions": {"fail": auto("bad")}}, bad={"terminal": True, "outcome": "failure"})


def calling(child: str, **more: Any) -> Json:
    """A workflow that calls another one."""
    executor = {"kind": "workflow", "definitionId": child, "input": {"n": "$.arguments.n"}, **more}
    return states(
        a={"transitions": {"call": {"target": "b", "executor": executor, "output": {"child": "$.output"}}}},
        b={"terminal": True},
    )


async def test_a_sub_workflow_returns_its_context(working: Working) -> None:
    lab = await working(workflows={"quick": QUICK, "w": calling("quick")})
    done = await lab.follow(await lab.start("w"), "call", n=21)
    assert done["context"] == {"child": {"double": 42}}
    types = [entry.type for entry in await lab.audit(done)]
    assert types.count("sub_workflow.started") == types.count("sub_workflow.completed") == 1


async def test_a_submit_is_answered_before_hosts_time_out(working: Working) -> None:
    """However long the gateway's own limit is."""
    lab = await working(
        {"longest_wait_ms": 200}, workflows={"child": CHILD, "w": calling("child")}, limits={"submitWaitMs": 600_000}
    )
    async with asyncio.timeout(30):
        under_way = await lab.follow(await lab.start("w"), "call", n=3)
    assert under_way["inFlight"]["transition"] == "call"


async def test_a_sub_workflow_may_wait_for_somebody(working: Working) -> None:
    lab = await working(workflows={"child": CHILD, "w": calling("child")}, limits={"submitWaitMs": 500})
    under_way = await lab.follow(await lab.start("w"), "call", n=3)
    assert under_way["inFlight"]["transition"] == "call"
    assert [link["rel"] for link in under_way["links"]] == ["self"]

    async def asking() -> Json:
        begun = [entry for entry in await lab.audit(under_way) if entry.type == "sub_workflow.started"]
        found = await lab("workflow.get", workflowId=begun[0].payload["workflowId"]) if begun else {}
        return found if found.get("state") == "asks" else {}

    child = await wait_until(asking, what="the sub-workflow to wait for somebody")
    assert child["context"] == {"n": 3}
    await lab.follow(child, "answer", value="yes")
    done = await lab.settled(under_way)
    assert done["terminal"]
    assert done["context"] == {"child": {"n": 3, "answer": "yes"}}


@pytest.mark.parametrize(
    ("workflows", "says"),
    [
        ({"child": FAILING}, "ended: failure, in state 'bad'"),
        ({"child": {**QUICK, "inputSchema": {"type": "object", "required": ["m"]}}}, "was not started"),
    ],
)
async def test_a_failing_sub_workflow_fails_the_transition(working: Working, workflows: Json, says: str) -> None:
    lab = await working(workflows={**workflows, "w": calling("child")})
    refused = await lab.follow_refused(await lab.start("w"), "call", n=1)
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert says in refused["error"]["message"]


async def test_waiting_for_a_sub_workflow_times_out(working: Working) -> None:
    lab = await working(workflows={"child": CHILD, "w": calling("child", timeoutMs=300)})
    refused = await lab.follow_refused(await lab.start("w"), "call", n=1)
    assert refused["error"]["details"]["errorClass"] == "timeout"
    (told,) = [entry for entry in await lab.audit(refused) if entry.type == "sub_workflow.timed_out"]
    child = told.payload["workflowId"]
    assert f"the sub-workflow {child} did not end in time; it is still running" in refused["error"]["message"]
    done = await lab.follow(await lab("workflow.get", workflowId=child), "answer", value="late")
    assert done["terminal"]


async def test_a_late_sub_workflow_is_not_confused_with_the_fallbacks(working: Working) -> None:
    instead = {"fallback": {"executors": [{"kind": "workflow", "definitionId": "child", "input": {"n": 2}}]}}
    calls = calling("child", timeoutMs=150)
    calls["states"]["a"]["transitions"]["call"]["reliability"] = instead
    lab = await working(workflows={"child": CHILD, "w": calls}, limits={"submitWaitMs": 100})
    under_way = await lab.follow(await lab.start("w"), "call", n=1)

    async def children() -> list[Json]:
        begun = [entry for entry in await lab.audit(under_way) if entry.type == "sub_workflow.started"]
        found = [await lab("workflow.get", workflowId=entry.payload["workflowId"]) for entry in begun]
        return found if [one["state"] for one in found] == ["asks", "asks"] else []

    late, other = await wait_until(children, what="both sub-workflows")
    await lab.follow(late, "answer", value="late")
    assert "inFlight" in await lab.get(under_way)
    await lab.follow(other, "answer", value="in time")
    assert (await lab.settled(under_way))["context"] == {"child": {"n": 2, "answer": "in time"}}


async def test_nesting_is_limited(working: Working) -> None:
    deeper = states(
        a={"transitions": {"down": auto("b", executor={"kind": "workflow", "definitionId": "w"})}}, b={"terminal": True}
    )
    lab = await working(workflows={"w": deeper})
    refused = await lab.refused("workflow.start", definitionId="w", input={})
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    started = [entry for entry in await lab.audit() if entry.type == "workflow.started"]
    assert len(started) == 11
    # None of them stays in progress.
    for entry in started:
        found = await lab("workflow.get", workflowId=entry.workflow_id)
        assert "inFlight" not in found


async def test_the_result_of_a_flow_is_awaited(working: Working) -> None:
    flow = {
        "start": {"name": "file", "tool": "manage_items", "next": "look",
                  "args": {"operation": "create", "items": [{"title": "{{input.title}}"}]}},
        "look": {"name": "look", "tool": "query_items", "args": {"operation": "overview"}, "done": True},
    }  # fmt: skip
    bad = {"start": {"name": "bad", "tool": "query_items", "args": {"operation": "nonsense"}, "done": True}}

    def running(graph: Json) -> Json:
        executor = {"kind": "flow", "name": "filing", "flow": graph, "input": {"title": "$.arguments.title"}}
        return states(
            a={"transitions": {"run": {"target": "b", "executor": executor, "output": {
                "created": "$.output.steps.file.created", "status": "$.output.status"}}}},
            b={"terminal": True},
        )  # fmt: skip

    lab = await working(workflows={"w": running(flow), "bad": running(bad)})
    done = await lab.follow(await lab.start("w"), "run", title="From a flow")
    assert done["context"] == {"created": 1, "status": "completed"}
    refused = await lab.follow_refused(await lab.start("bad"), "run", title="x")
    assert "failed: step 'bad' failed: operation: 'nonsense' is not one of" in refused["error"]["message"]


async def test_a_timed_out_flow_is_a_failure(working: Working) -> None:
    gate = {"start": {"name": "ask", "tool": None, "done": True}}
    waiting = {"kind": "flow", "flow": gate, "timeoutMs": 150}
    instead = {"fallback": {"executors": [{"kind": "noop", "map": {"by": "fallback"}}]}}

    def asking(**more: Json) -> Json:
        ask = {"target": "b", "executor": waiting, "output": {"asked": "$.output"}, **more}
        return states(a={"transitions": {"ask": ask}}, b={"terminal": True})

    lab = await working(workflows={"w": asking(), "insured": asking(reliability=instead)})
    refused = await lab.follow_refused(await lab.start("w"), "ask")
    assert refused["error"]["details"]["errorClass"] == "timeout"
    assert "took too long" in refused["error"]["message"]
    assert "executor.failed" in [entry.type for entry in await lab.audit(refused)]
    done = await lab.follow(await lab.start("insured"), "ask")
    assert done["context"] == {"asked": {"by": "fallback"}}
    types = [entry.type for entry in await lab.audit(done)]
    assert types.count("executor.failed") == types.count("fallback.selected") == 1


# --- waiting calls --------------------------------------------------------------------------------


async def test_a_long_operation_is_shown_as_in_flight(working: Working, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waiting = sh(f"while ! [ -e {gate} ]; do sleep 0.02; done; echo 1")
    lab = await working(
        workflows={"w": states(a={"transitions": {"go": {"target": "b", "executor": waiting}}}, b={"terminal": True})},
        limits={"submitWaitMs": 300},
    )
    started = await lab.start("w")
    under_way = await lab.follow(started, "go")
    assert (under_way["state"], under_way["version"]) == ("a", 1)
    assert under_way["inFlight"]["transition"] == "go"
    assert under_way["inFlight"]["retryAfterMs"] > 0
    # Later calls are told to retry: nothing runs twice.
    busy = await lab.follow_refused(started, "go")
    assert busy["error"]["code"] == "STALE_WORKFLOW_VERSION"
    assert busy["error"]["details"]["retryAfterMs"] > 0
    assert [link["rel"] for link in busy["links"]] == ["self"]
    gate.touch()
    assert (await lab.settled(started))["terminal"]


async def test_without_a_worker_nothing_is_lost(make_lab: MakeLab, store: Store) -> None:
    lab = make_lab(
        workflows={"w": states(a={"transitions": {"go": {"target": "b", "executor": {"kind": "noop"}}}},
                               b={"terminal": True})},
        limits={"submitWaitMs": 200},
    )  # fmt: skip
    under_way = await lab.follow(await lab.start("w"), "go")
    assert "inFlight" in under_way
    worker = await Worker(store, lab.settings).start()
    try:
        assert (await lab.settled(under_way))["terminal"]
    finally:
        await worker.stop()


async def test_quick_calls_take_the_fast_path(
    working: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (durations, operations):
        # A busy machine starts programs slowly.
        monkeypatch.setattr(module, "QUICK_SECONDS", 20.0)
    gate = tmp_path / "gate"
    gate.touch()
    script = sh(f"while ! [ -e {gate} ]; do sleep 0.02; done")
    lab = await working(
        {"request_deadline_ms": 10_000},
        workflows={
            "w": states(
                a={"transitions": {"plain": {"target": "a"}, "noop": {"target": "a", "executor": {"kind": "noop"}},
                                   "gated": {"target": "a", "executor": script},
                                   "entered": {"target": "b"}, "asks": {"target": "a", "executor": {"kind": "human"}}}},
                b={"onEnter": {"executor": script}, "transitions": {"back": {"target": "a"}}},
            )
        },
        capabilities={"call": {"executor": script, "inputSchema": {"type": "object"}}},
    )  # fmt: skip
    at = await lab.start("w")

    def waits(tool: str, **arguments: Any) -> bool:
        called = lab.tools[tool]
        return called.may_wait(msgspec.convert(arguments, called.arguments))

    def submit_waits(name: str, answer: Json) -> bool:
        return waits("workflow.submit", **lab.link(answer, name))

    # Known from the definition, of an instance that this process has seen.
    assert {name for name in ("plain", "asks", "noop", "gated", "entered") if submit_waits(name, at)} == {
        "noop", "gated", "entered",
    }  # fmt: skip
    assert submit_waits("plain", {**at, "workflowId": "wf_0", "links": []})
    # Known from its duration.
    at = await lab.follow(at, "noop")
    assert not submit_waits("noop", at)
    call: Json = {"definitionId": "proxy_default", "input": {"capability": "call", "x": 1}}
    assert waits("workflow.start", **call)
    await lab("workflow.start", **call)
    assert not waits("workflow.start", **call)
    assert not waits("workflow.start", definitionId="w", input={})
    at = await lab.follow(at, "gated")
    assert not submit_waits("gated", at)
    # If it takes longer this time, the answer comes in time and says that it is in flight.
    gate.unlink()
    began = asyncio.get_running_loop().time()
    under_way = await lab.follow(at, "gated")
    assert asyncio.get_running_loop().time() - began < 10.0
    assert under_way["inFlight"]["transition"] == "gated"
    assert submit_waits("gated", at)
    gate.touch()
    await lab.settled(at)
