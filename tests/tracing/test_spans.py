"""Spans within one process: calls, propagation, and shutdown."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coordinator.metrics import tracing
from coordinator.overload import Admission
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.supervision.roles import start_tracing
from coordinator.settings import Settings
from coordinator.settings.sections.tracing import Tracing as Section
from coordinator.toolsets.tool import Call
from coordinator.transport.calls import Calls
from coordinator.transport.fast_path.calls import ParsedCall, Plan
from coordinator.transport.http.app import Answer
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.tracing.collector import Collector
from tests.tracing.logged import Logged
from tests.transport.rig import Add, Fail, Nothing, Rig, Wait, legacy, make_app, meta, modern, send

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    """Turns tracing off after each test."""
    yield
    tracing.stop()


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """Spans of this process, in the order of their ends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.install(tracing.Tracing(provider, provider.get_tracer("test")))
    yield exporter
    tracing.install(None)


def test_nothing_is_traced_by_default() -> None:
    start_tracing(Settings(), "fe-0")
    assert tracing.active() is None
    assert tracing.carried() == ""

    def observe(script: str, seconds: float, outcome: str, project: str) -> None:
        pass

    assert tracing.observing(observe) is observe


async def test_each_outcome_of_a_call_ends_its_span(exported: InMemorySpanExporter) -> None:
    rig = Rig()
    tools = {tool.name: tool for tool in rig.toolset().tools}
    calls = Calls(10_000)
    call = Call("default", "r" * 1000, None, trace=PARENT)
    await calls.run(tools["add"], call, Add(left=1), "fast")
    await calls.run(tools["fail"], call, Fail(code="conflict"), "fast")
    await calls.run(tools["broken"], call, Nothing(), "sdk")
    left = asyncio.create_task(calls.run(tools["late"], call, Wait(gate="g"), "fast"))
    await wait_until(lambda: "g" in rig.waiting)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    seen = []
    for span in exported.get_finished_spans():
        attributes = dict(span.attributes or {})
        seen.append((span.name, attributes["coordinator.outcome"], attributes.get("error.type"), span.status.is_ok))
        assert len(str(attributes["coordinator.request_id"])) == 128
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
        assert not span.events
    assert seen == [
        ("tools/call add", "ok", None, True),
        ("tools/call fail", "conflict", "conflict", False),
        ("tools/call broken", "internal", None, False),
        ("tools/call late", "cancelled", None, True),
    ]
    assert tracing.carried() == "", "the span of a call ends with it"


@pytest.fixture
def logged() -> Iterator[Logged]:
    with Logged() as logged:
        yield logged


def of(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


async def test_logs_of_a_call_name_its_span(exported: InMemorySpanExporter, logged: Logged) -> None:
    tools = {tool.name: tool for tool in Rig().toolset().tools}
    calls, call = Calls(10_000), Call("default", "r", None, trace=PARENT)
    over, later = asyncio.Event(), []

    async def outlives() -> None:
        await over.wait()
        structlog.get_logger("coordinator.x").info("outlived")

    async def echo(call: Call, given: Any) -> Any:
        structlog.get_logger("coordinator.x").info("at work")
        await asyncio.to_thread(logging.getLogger("library").warning, "in a thread")
        later.append(asyncio.create_task(outlives()))
        return await tools["nothing"].handler(call, given)

    await calls.run(replace(tools["nothing"], handler=echo), call, Nothing(), "fast")
    await calls.run(tools["broken"], call, Nothing(), "fast")
    structlog.get_logger("coordinator.x").info("afterwards")
    over.set()
    await asyncio.gather(*later)
    nothing, broken = exported.get_finished_spans()
    assert of(nothing)[0] == PARENT[3:35]
    assert logged.places() == {
        "at work": of(nothing),
        "in a thread": of(nothing),
        "tool failed": of(broken),
        "afterwards": None,
        "outlived": None,
    }


def traced(era: str, tool: str, **arguments: Any) -> tuple[list[tuple[str, str]], bytes]:
    """A call of one of the rig's tools that names a trace."""
    params = {"name": tool, "arguments": arguments}
    named = {"traceparent": PARENT, "tracestate": "a=1"}
    if era == "modern":
        return modern("tools/call", {**params, "_meta": {**meta(), **named}})
    return legacy("tools/call", {**params, "_meta": named})


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("way", ["fast", "sdk"])
async def test_both_paths_accept_both_forms_of_trace_context(
    exported: InMemorySpanExporter, era: str, way: str
) -> None:
    app = make_app(fast=way == "fast")
    headers, body = traced(era, "add", left=1)
    try:
        for _ in range(2):  # the fast path serves requests like those admitted before
            assert (await send(app, headers=headers, body=body)).status == 200
    finally:
        await app.stop()
    span = exported.get_finished_spans()[-1]
    assert (span.name, (span.attributes or {})["coordinator.transport"]) == ("tools/call add", way)
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == PARENT[3:52]
    assert span.context is not None
    assert span.context.trace_state.get("a") == "1"


async def test_a_shed_call_has_a_span_too(exported: InMemorySpanExporter) -> None:
    admission = Admission(Settings().overload, time.monotonic)
    app = make_app(admission=admission)
    headers, body = traced("modern", "echo", text="x")
    try:
        await send(app, headers=headers, body=body)
        scope = {"path": "/mcp", "method": "POST", "headers": [(a.encode(), b.encode()) for a, b in headers]}
        plan = app.fast_path.plan(scope)
        assert isinstance(plan, Plan)
        parsed = app.fast_path.parse(plan, body)
        assert isinstance(parsed, ParsedCall)
        admission.draining = True
        assert isinstance(app.enter(parsed, plan, None), Answer)
    finally:
        await app.stop()
    span = exported.get_finished_spans()[-1]
    assert (span.attributes or {})["error.type"] == "draining"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT[36:52]


async def test_scripts_are_children_of_a_span_until_it_ends(exported: InMemorySpanExporter) -> None:
    tracer = tracing.active()
    assert tracer is not None
    observed: list[str] = []
    observe = tracing.observing(lambda script, seconds, outcome, *_: observed.append(script))
    observe("before", 0.1, "ok", "default")
    scope = tracer.call("add", "default", "r", "fast", PARENT)
    observe("during", 0.1, "unavailable", "default")
    outlives = asyncio.create_task(asyncio.sleep(0))
    gate = asyncio.Event()

    async def late() -> None:
        await gate.wait()
        observe("late", 0.1, "ok", "default")

    outliving = asyncio.create_task(late())
    scope.end("ok")
    scope.leave()
    gate.set()
    await asyncio.gather(outlives, outliving)
    observe("after", 0.1, "ok", "default")
    script, call = exported.get_finished_spans()
    assert (script.name, call.name) == ("script during", "tools/call add")
    assert script.parent is not None
    assert call.context is not None
    assert script.parent.span_id == call.context.span_id
    assert script.end_time is not None
    assert script.start_time is not None
    assert script.end_time - script.start_time == 100_000_000
    assert not script.status.is_ok
    assert observed == ["before", "during", "late", "after"]


async def test_a_batched_report_is_a_child_of_the_first_step_and_linked_to_the_others(
    exported: InMemorySpanExporter,
) -> None:
    tracer = tracing.active()
    assert tracer is not None
    steps = []
    for number in range(3):
        steps.append(tracer.step("flows", "default", "1", str(number), "k" * 1000, 1, PARENT))
        steps[-1].end("ok")
        steps[-1].leave()
    reporting = tracer.reporting(steps)
    tracer.script("report_steps", 0.001, "ok")
    reporting.forget()
    tracer.script("take_steps", 0.001, "ok")
    *of_steps, report = exported.get_finished_spans()
    assert report.name == "script report_steps"
    ids = [span.context.span_id for span in of_steps if span.context is not None]
    assert report.parent is not None
    assert [report.parent.span_id, *(link.context.span_id for link in report.links)] == ids
    assert len(str((of_steps[0].attributes or {})["coordinator.step.key"])) == 128


def test_carried_context_keeps_the_trace_with_the_current_span(exported: InMemorySpanExporter) -> None:
    tracer = tracing.active()
    assert tracer is not None
    scope = tracer.call("add", "default", "r", "fast", tracing.trace_of(PARENT, "a=1,b=2"))
    parent, _, state = tracing.carried().partition(" ")
    assert parent == f"00-0af7651916cd43dd8448eb211c80319c-{scope.span.get_span_context().span_id:016x}-01"
    assert state == "a=1,b=2"
    scope.end("ok")
    scope.leave()


@given(
    st.one_of(st.none(), st.integers(), st.text(), st.text("-0123456789abcdef", min_size=50, max_size=60)), st.text()
)
def test_a_malformed_trace_context_starts_a_new_trace(parent: object, state: str) -> None:
    provider = TracerProvider()
    tracer = tracing.Tracing(provider, provider.get_tracer("test"))
    found = tracing.trace_of(parent, state)
    assert len(found) <= 128 + 1 + 512
    scope = tracer.call("add", "default", "r", "fast", found)
    assert scope.span.get_span_context().is_valid
    scope.end("ok")
    scope.leave()


@pytest.mark.parametrize("state", [None, 7, "", "x" * 513, "a=1\r\nb=2", "é=1"])
def test_a_malformed_tracestate_is_dropped(state: object) -> None:
    assert tracing.trace_of(PARENT, state) == PARENT


def test_closing_delivers_the_remaining_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "DELAY_MS", 600_000)
    with Collector() as collector:
        tracer = tracing.start(collector.url, 1.0, "1", "fe-0")
        scope = tracer.call("add", "default", "r", "fast", "")
        scope.end("ok")
        scope.leave()
        tracing.stop()
        assert [(span.name, span.process) for span in collector.spans] == [("tools/call add", "fe-0")]
    assert tracing.active() is None


def test_closing_does_not_wait_for_a_hung_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    # How long the exporter itself would wait, in seconds.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
    with Collector() as collector:
        collector.held.clear()
        tracer = tracing.start(collector.url, 1.0, "1", "fe-0")
        scope = tracer.call("add", "default", "r", "fast", "")
        scope.end("ok")
        scope.leave()
        began = time.monotonic()
        tracing.stop()
        assert time.monotonic() - began < 30
        assert collector.asked.is_set()


def test_a_missing_collector_does_no_harm() -> None:
    tracer = tracing.start(f"http://127.0.0.1:{free_port()}", 1.0, "1", "fe-0")
    scope = tracer.call("add", "default", "r", "fast", "")
    scope.end("ok")
    scope.leave()
    tracing.stop()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ProcessProblem, match=r"pip install 'fleet-coordinator\[tracing\]'"):
        start_tracing(Settings(tracing=Section(endpoint="http://127.0.0.1:4318")), "fe-0")
