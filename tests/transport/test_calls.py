"""One call from its arguments to its answer: outcomes, deadline, cancellation."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any, cast

import msgspec
import pytest

import coordinator.transport.calls
from coordinator.errors import CATALOGUE, ToolFailure
from coordinator.metrics.cells import Buckets
from coordinator.overload import Admission
from coordinator.settings.sections.overload import Overload
from coordinator.store import Store, keys
from coordinator.store.layout import VERSION
from coordinator.toolsets.tool import Call, Reply
from coordinator.transport.calls import Calls, Done
from coordinator.transport.metrics import FAST_PATH, REQUEST_DURATION, REQUESTS, SLOT_REQUESTS
from coordinator.transport.projects import Projects
from tests.support.counts import all_counted, counted
from tests.support.wait import wait_until
from tests.transport.rig import Add, Fail, Nothing, Pong, Rig, Wait, call, legacy, make_app, modern, send

pytestmark = pytest.mark.anyio

CALL = Call("default", "r-1")


def make(deadline_ms: int = 10_000) -> tuple[Calls, Rig, dict[str, Any]]:
    rig = Rig()
    tools = {tool.name: tool for tool in rig.toolset().tools}
    return Calls(deadline_ms), rig, tools


async def test_outcomes_are_reported(logged: list[Any]) -> None:
    calls, _, tools = make()
    assert (await calls.run(tools["add"], CALL, Add(left=1), "fast")).body == b'{"sum":2}'
    for code in ("conflict", "RESOURCE_NOT_FOUND", "over_capacity", "VALIDATION_ERROR", "INTERNAL_ERROR"):
        done = await calls.run(tools["fail"], CALL, Fail(code=code), "sdk")
        assert done.failed
        assert msgspec.json.decode(done.body)["error"]["kind"] == CATALOGUE[code].kind
    assert (await calls.run(tools["broken"], CALL, Nothing(), "stdio")).failed
    outcomes = ("conflict", "error", "shed", "invalid", "internal")
    failed = {("fail", outcome): 1 for outcome in outcomes}
    assert all_counted(REQUESTS) == {("add", "ok"): 1, **failed, ("broken", "internal"): 1}
    assert all_counted(REQUEST_DURATION) == {("add", "fast"): 1, ("fail", "sdk"): 5, ("broken", "stdio"): 1}
    assert counted(SLOT_REQUESTS) == 7
    assert logged[-1]["tool"] == "broken"


async def test_what_cannot_be_read_is_no_defect_if_the_store_has_another_layout(alone: Store) -> None:
    _, _, tools = make()
    calls = Calls(10_000, hints=Projects(alone))
    for version, code in ((VERSION + 1, "layout_unknown"), (VERSION, "INTERNAL_ERROR")):
        await alone.command("SET", keys.key_space.key(keys.FLEET), version)
        done = await calls.run(tools["broken"], CALL, Nothing(), "fast")
        assert msgspec.json.decode(done.body)["error"]["code"] == code


async def test_a_defect_at_the_deadline_is_answered(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, tools = make()
    hints = Projects(alone)
    calls = Calls(50, hints=hints)

    async def late() -> None:
        await asyncio.wait([later])  # the deadline of that one comes after that of the defect

    monkeypatch.setattr(hints, "misread", late)
    broken = asyncio.create_task(calls.run(tools["broken"], CALL, Nothing(), "fast"))
    later = asyncio.create_task(calls.run(tools["late"], CALL, Wait(gate="g"), "fast"))
    codes = [msgspec.json.decode((await one).body)["error"]["code"] for one in (broken, later)]
    assert codes == ["INTERNAL_ERROR", "deadline_exceeded"]


class Full:
    """Sheds every call, or lets it wait for ever."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits

    def turns_away(self, *_: Any) -> int:
        return 250

    def refusal(self, *_: Any, **__: Any) -> ToolFailure:
        return ToolFailure("over_capacity", "full")

    def enter(self, *_: Any, **__: Any) -> None:
        if not self._waits:
            raise ToolFailure("over_capacity", "full")

    async def wait(self, *_: Any) -> None:
        await asyncio.Event().wait()


async def test_shed_calls_have_no_duration() -> None:
    """Calls that are shed within microseconds must not count as fast calls."""
    _, rig, tools = make()
    calls = Calls(10_000, cast(Admission, Full(waits=False)))
    add, arguments = tools["add"], Add(left=1)
    read = add.weigh(arguments)
    assert calls.shed_at_once(add, read, "fast")
    assert calls.refusal(add, CALL, arguments, "fast")
    assert isinstance(calls.enter(add, read, CALL, arguments, "fast"), Done)
    assert (await calls.run(add, CALL, arguments, "fast")).failed
    assert (await calls.run(tools["watch"], CALL, Wait(gate="g"), "fast")).failed
    calls.refused(add, ToolFailure("VALIDATION_ERROR", "left: wrong"), "fast", CALL)
    assert all_counted(REQUESTS) == {("add", "shed"): 4, ("watch", "shed"): 1, ("add", "invalid"): 1}
    assert all_counted(REQUEST_DURATION) == {}
    assert rig.calls == []


async def test_calls_are_admitted_as_parked_only_if_they_wait() -> None:
    _, rig, tools = make()
    admission = Admission(Overload(), time.monotonic)
    calls = Calls(10_000, admission)
    watch = dataclasses.replace(tools["watch"], parks=True)
    for gate, parked in (("g", 1), ("open", 0)):
        running = asyncio.create_task(calls.run(watch, CALL, Wait(gate=gate), "sdk"))
        await wait_until(lambda: len(rig.waiting) == 1)
        assert (admission.parked, admission.in_flight) == (parked, 1 - parked)
        rig.gates[gate].set()
        assert not (await running).failed
    admission.parked = Overload().parked_most
    assert calls.refusal(watch, CALL, Wait(gate="g"), "sdk") is not None
    assert calls.refusal(watch, CALL, Wait(gate="open"), "sdk") is None


async def test_a_call_that_may_enter_is_not_reported_as_shed() -> None:
    _, _, tools = make()
    calls = Calls(10_000, Admission(Overload(), time.monotonic))
    assert calls.shed_at_once(tools["add"], tools["add"].weigh(Add(left=1)), "fast") == 0
    assert all_counted(REQUESTS) == {}


async def test_a_call_that_times_out_before_admission_lasts_its_deadline() -> None:
    _, _, tools = make()
    calls = Calls(30, cast(Admission, Full(waits=True)))
    assert (await calls.run(tools["add"], CALL, Add(left=1), "fast")).failed
    assert all_counted(REQUESTS) == {("add", "conflict"): 1}
    assert all_counted(REQUEST_DURATION) == {("add", "fast"): 1}


async def test_a_late_read_reports_no_possible_effect() -> None:
    calls, _, tools = make(deadline_ms=30)
    done = await calls.run(dataclasses.replace(tools["late"], read_only=True), CALL, Wait(gate="g"), "fast")
    assert msgspec.json.decode(done.body)["error"]["message"] == "late did not finish within 0.03 s"


async def test_a_call_past_the_deadline_is_cancelled_and_reported() -> None:
    calls, rig, tools = make(deadline_ms=30)
    done = await calls.run(tools["late"], CALL, Wait(gate="g"), "fast")
    error = msgspec.json.decode(done.body)["error"]
    assert (error["kind"], error["code"]) == ("transient", "deadline_exceeded")
    assert error["message"] == "late did not finish within 0.03 s; it may have taken effect"
    assert all_counted(REQUESTS) == {("late", "conflict"): 1}
    assert rig.waiting == set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    # The task is usable again.
    assert not (await calls.run(tools["add"], CALL, Add(left=1), "fast")).failed


async def test_tools_that_wait_have_no_deadline() -> None:
    calls, rig, tools = make(deadline_ms=20)
    watching = asyncio.create_task(calls.run(tools["watch"], CALL, Wait(gate="g"), "sdk"))
    await wait_until(lambda: "g" in rig.waiting)
    assert (await calls.run(tools["late"], CALL, Wait(gate="other"), "fast")).failed
    assert rig.waiting == {"g"}
    rig.gates["g"].set()
    assert not (await watching).failed


async def test_an_unauthorized_waiting_call_ends_before_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def recheck() -> None:
        if rig.waiting:
            raise ToolFailure("unauthenticated", "no more")

    monkeypatch.setattr(coordinator.transport.calls, "LOOK_SECONDS", 0.01)
    calls, rig, tools = make()
    done = await calls.run(tools["watch"], CALL, Wait(gate="g"), "sdk", recheck)
    assert msgspec.json.decode(done.body)["error"]["code"] == "unauthenticated"
    assert rig.waiting == set()


async def test_a_result_with_is_error_counts_as_an_error() -> None:
    calls, _, tools = make()
    for failed in (True, False):

        async def answer(call: Call, given: Any, failed: bool = failed) -> Reply:
            return Reply(text="as told", is_error=failed)

        done = await calls.run(dataclasses.replace(tools["nothing"], handler=answer), CALL, Nothing(), "fast")
        assert (done.failed, done.shown()) == (failed, "as told")
    assert all_counted(REQUESTS) == {("nothing", "error"): 1, ("nothing", "ok"): 1}


async def test_parked_time_is_not_part_of_the_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[float] = []
    monkeypatch.setattr(Buckets, "observe", lambda _, seconds: took.append(seconds))

    async def parked(call: Call, given: Wait) -> Pong:
        if call.idle is not None:
            call.idle(1000.0)
        return Pong(ok=True)

    _, _, tools = make()
    watch = dataclasses.replace(tools["watch"], parks=True, handler=parked)
    calls = Calls(10_000)
    for gate in ("g", "open"):
        assert not (await calls.run(watch, CALL, Wait(gate=gate), "sdk")).failed
    assert took[0] < -900
    assert took[1] >= 0


async def test_cancellation_from_outside_is_passed_on() -> None:
    calls, rig, tools = make()
    running = asyncio.create_task(calls.run(tools["late"], CALL, Wait(gate="g"), "fast"))
    await wait_until(lambda: "g" in rig.waiting)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all_counted(REQUESTS) == {}


async def test_cancellation_from_outside_is_passed_on_at_the_deadline_too() -> None:
    calls, _, tools = make(deadline_ms=30)
    running = asyncio.create_task(calls.run(tools["late"], CALL, Wait(gate="g"), "fast"))
    loop = asyncio.get_running_loop()

    def cancel_too() -> None:
        # In each loop iteration: in the one after the deadline, this runs before the task is cancelled.
        if running.cancelling():
            running.cancel()
        else:
            loop.call_soon(cancel_too)

    cancel_too()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all_counted(REQUESTS) == {}


@pytest.mark.parametrize("make", [modern, legacy])
async def test_a_call_that_waits_too_long_is_cancelled(rig: Rig, make: Any) -> None:
    app = make_app(rig, with_settings={"longest_wait_ms": 100})
    response = await send(app, "POST", "/mcp", *make("tools/call", call("watch", {"gate": "never"})))
    assert b'"kind":"transient","code":"deadline_exceeded"' in response.body
    assert b"within 0.1 s" in response.body
    assert rig.waiting == set()
    await app.stop()


@pytest.mark.parametrize("fast", [True, False])
async def test_late_calls_are_cancelled_on_both_paths(rig: Rig, fast: bool) -> None:
    app = make_app(rig, fast=fast, with_settings={"request_deadline_ms": 40, "redis_timeout_ms": 20})
    for request in (
        modern("tools/call", call("late", {"gate": "g"})),
        legacy("tools/call", call("late", {"gate": "g"})),
    ):
        response = await send(app, "POST", "/mcp", *request)
        assert response.status == 200
        assert response.json["result"]["structuredContent"]["error"]["code"] == "deadline_exceeded"
    assert rig.waiting == set()
    await app.stop()


async def test_the_path_is_reported_with_each_call(rig: Rig) -> None:
    app = make_app(rig)
    await send(app, "POST", "/mcp", *modern("tools/call", call("add", {"left": 1})))
    await send(app, "POST", "/mcp", *modern("tools/call", call("add", {"left": 1})))
    await send(app, "POST", "/mcp", *legacy("tools/call", call("add", {"left": "1"})))
    await send(app, "POST", "/mcp", *legacy("tools/call", call("add", {})))
    await send(app, "POST", "/mcp", *legacy("tools/list", {}))
    # The first came with an unknown host.
    assert all_counted(REQUESTS) == {("add", "ok"): 3, ("add", "invalid"): 1}
    assert all_counted(REQUEST_DURATION) == {("add", "sdk"): 2, ("add", "fast"): 1}
    assert all_counted(FAST_PATH) == {"miss": 3, "hit": 1}
    assert app.fast_path.counts == {"hit": 1, "host": 1, "envelope": 2}
    await app.stop()


@pytest.mark.parametrize("make", [modern, legacy])
@pytest.mark.parametrize("fast", [True, False])
async def test_arguments_encoded_as_json_strings_are_decoded(rig: Rig, make: Any, fast: bool) -> None:
    app = make_app(rig, fast=fast)
    given = {"text": "x", "parts": '[{"name": "a"}, "{\\"name\\": \\"b\\", \\"weight\\": 2}"]'}
    headers, body = make("tools/call", call("echo", given))
    result = (await send(app, headers=headers, body=body)).json["result"]
    assert result["structuredContent"]["parts"] == ["a=1.0", "b=2.0"]
    await app.stop()
