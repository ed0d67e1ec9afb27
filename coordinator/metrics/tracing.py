"""Spans of tool calls, Lua scripts and steps, for a collector that takes OTLP over HTTP.

To trace, a process calls ``start`` once, after it was forked, because the exporter has a thread. In other processes
``active()`` is None, and that check is all that tracing costs.

**Parents.** A call's span continues the trace that the caller names in ``_meta`` (``traceparent``, ``tracestate``: W3C
trace context). The scripts of the call are its children. If a call starts a run of steps, the run is stored with
``carried()``, so that the spans of its steps, in any worker and attempt, are children of the call too. Calls of
downstream servers carry the context of their step: the MCP client takes it from OpenTelemetry's current span. No
provider is registered globally, so libraries make no spans of their own, and nothing is traced twice.

**Contents.** A span holds names and bounded ids, never arguments, results, messages of failures or actors. Log lines
name the span that they belong to (``logs``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coordinator.metrics import logs

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Observe = Callable[[str, float, str, str], None]
"""As ``coordinator.store.store`` has it."""
FLUSH_SECONDS = 1.0
"""How long a process that ends waits for its last spans to be delivered."""
DELAY_MS = 1_000
"""How long spans may wait for more before they are sent."""
_QUEUE = 8_192
_LONGEST_ID = 128
_LONGEST_STATE = 512
_TRACES_PATH = "/v1/traces"

_PARENT = re.compile(r"[!-~]{55,128}")
_STATE = re.compile(rf"[ -~]{{1,{_LONGEST_STATE}}}")
_PLACE = re.compile(r"https?://[^/?#]+/?\Z")
_SCOPE = contexts.create_key("coordinator-scope")
_w3c = TraceContextTextMapPropagator()
_FAILED = frozenset({"error", "internal", "failed", "lost", "unavailable", "full", "defect"})
"""Outcomes (of calls, scripts and steps) that mark a span as failed."""


class TracingUnavailable(Exception):
    """The packages that tracing needs are not installed."""


def trace_of(traceparent: object, tracestate: object) -> str:
    """The trace context that a caller sent, in the form of ``carried``; empty: none, or a malformed one."""
    if not isinstance(traceparent, str) or not _PARENT.fullmatch(traceparent):
        return ""
    if isinstance(tracestate, str) and _STATE.fullmatch(tracestate):
        return f"{traceparent} {tracestate}"
    return traceparent


def trace_in(meta: Mapping[str, object]) -> str:
    """The trace context in a request's ``_meta``; empty: it has none, or nothing is traced here."""
    return "" if _active is None else trace_of(meta.get("traceparent"), meta.get("tracestate"))


def carried() -> str:
    """The current trace context, to be stored with what continues it: traceparent, a blank, and tracestate if any.

    Empty if nothing is traced here.
    """
    if _active is None or not get_current_span().get_span_context().is_valid:
        return ""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return trace_of(carrier.get("traceparent"), carrier.get("tracestate"))


def current() -> tuple[str, str] | None:
    """The ids of the current trace and span, in hex digits; None: nothing is traced here.

    A task that outlives the call that started it has no current span.
    """
    scope = contexts.get_value(_SCOPE)
    if not isinstance(scope, Scope) or not scope.open:
        return None
    span = scope.span.get_span_context()
    return format_trace_id(span.trace_id), format_span_id(span.span_id)


class Scope:
    """An open span. It is current in the task that began it, until ``leave``."""

    __slots__ = ("_token", "context", "links", "open", "span")

    def __init__(self, span: Span, links: Sequence[Link] = ()) -> None:
        self.span = span
        self.links = links
        self.open = True
        """Whether scripts become its children. False once it has ended; a task that outlives it may still have it as
        current."""
        self.context = contexts.set_value(_SCOPE, self, set_span_in_context(span, contexts.Context()))
        self._token: Token[contexts.Context] | None = contexts.attach(self.context)

    def name_tool(self, tool: str) -> None:
        """Sets the tool that a step calls."""
        self.span.set_attribute("gen_ai.tool.name", tool[:_LONGEST_ID])

    def end(self, outcome: str, code: str = "") -> None:
        """Ends the span; only the first outcome counts.

        Args:
            code: of the error catalogue, if something failed.
        """
        if not self.open:
            return
        self.open = False
        self.span.set_attribute("coordinator.outcome", outcome)
        if code:
            self.span.set_attribute("error.type", code)
        if code or outcome in _FAILED:
            self.span.set_status(StatusCode.ERROR)
        self.span.end()

    def forget(self) -> None:
        """Ends a scope of ``Tracing.reporting``, whose spans have ended before."""
        self.open = False
        self.leave()

    def leave(self) -> None:
        """Makes the previous span current again; to be called by the task that began this one."""
        token, self._token = self._token, None
        if token is not None:
            contexts.detach(token)


class Tracing:
    """Makes the spans of one process; ``start`` makes it."""

    def __init__(self, provider: TracerProvider, tracer: Tracer) -> None:
        self._provider = provider
        self._tracer = tracer

    def call(self, tool: str, project: str, request_id: str, transport: str, trace: str) -> Scope:
        """A tool call begins.

        Args:
            trace: the result of ``trace_of``; empty: a new trace begins here.
        """
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "coordinator.project": project,
            "coordinator.request_id": request_id[:_LONGEST_ID],
            "coordinator.transport": transport,
        }
        return self._begin(f"tools/call {tool}", SpanKind.SERVER, trace, attributes)

    def step(self, run_kind: str, project: str, run: str, step: str, key: str, attempt: int, trace: str) -> Scope:
        """A worker begins an attempt of a step.

        Args:
            trace: the run's, from ``carried``.
        """
        attributes: dict[str, str | int] = {
            "coordinator.run.kind": run_kind,
            "coordinator.project": project,
            "coordinator.run": run,
            "coordinator.step": step,
            "coordinator.step.key": key[:_LONGEST_ID],
            "coordinator.attempt": attempt,
        }
        return self._begin(f"step {run_kind}", SpanKind.CONSUMER, trace, attributes)

    def script(self, script: str, seconds: float, outcome: str) -> None:
        """Makes the span of a Lua script that has ended, if it ran for a call or a step."""
        scope = contexts.get_value(_SCOPE)
        if not isinstance(scope, Scope) or not scope.open:
            return
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"script {script}",
            scope.context,
            SpanKind.CLIENT,
            {
                "db.system.name": "redis",
                "db.operation.name": "FCALL",
                "db.stored_procedure.name": script,
                "coordinator.outcome": outcome,
            },
            scope.links,
            ended - round(seconds * 1e9),
        )
        if outcome in _FAILED:
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def reporting(self, steps: Sequence[Scope]) -> Scope:
        """Begins the report of several steps at once: scripts become children of the first step, linked to the others.

        ``Scope.forget`` ends it.
        """
        return Scope(steps[0].span, [Link(step.span.get_span_context()) for step in steps[1:]])

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Delivers the remaining spans, for at most ``seconds``."""
        # In a thread, because the exporter's own shutdown may wait forever for a collector that does not answer.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(seconds)

    def _begin(self, name: str, kind: SpanKind, trace: str, attributes: Mapping[str, str | int]) -> Scope:
        above = contexts.Context()
        if trace:
            parent, _, state = trace.partition(" ")
            above = _w3c.extract({"traceparent": parent, "tracestate": state}, above)
        return Scope(self._tracer.start_span(name, above, kind, attributes))


_active: Tracing | None = None


def active() -> Tracing | None:
    """The tracing of this process; None: nothing is traced."""
    return _active


def observing(observe: Observe) -> Observe:
    """An observer for ``Store.observe`` that calls ``observe`` and, if this process traces, makes spans of scripts."""
    tracing = _active
    if tracing is None:
        return observe
    trace = tracing.script

    def both(script: str, seconds: float, outcome: str, project: str) -> None:
        observe(script, seconds, outcome, project)
        trace(script, seconds, outcome)

    return both


def start(endpoint: str, sample_ratio: float, version: str, slot: str) -> Tracing:
    """Starts tracing in this process.

    Args:
        endpoint: URL of the collector; if it has no path, ``/v1/traces`` is added.
        sample_ratio: which share of the traces that begin here is recorded, from 0 to 1. A trace that a caller has
            begun carries the caller's decision.
        slot: the process's name on its host.

    Raises:
        TracingUnavailable: says what to install.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise TracingUnavailable(
            "tracing.endpoint is set, but what it needs is not installed: pip install 'fleet-coordinator[tracing]'"
        ) from None
    # It would log for every batch what the exporter reports at the end.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    described = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or "fleet-coordinator",
        "service.version": version,
        "service.instance.id": f"{socket.gethostname()}/{slot}",
    }
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
        resource=Resource.create(described),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint.rstrip("/") + _TRACES_PATH if _PLACE.match(endpoint) else endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_QUEUE, schedule_delay_millis=DELAY_MS))
    tracing = Tracing(provider, provider.get_tracer("fleet-coordinator", version))
    install(tracing)
    return tracing


def stop() -> None:
    """Ends tracing and delivers the remaining spans."""
    tracing = _active
    install(None)
    if tracing is not None:
        with contextlib.suppress(Exception):  # the process ends: lost spans are no reason to fail
            tracing.close()


def install(tracing: Tracing | None) -> None:
    """Makes ``tracing`` this process's tracing; None: nothing is traced any more."""
    global _active
    _active = tracing
    logs.name_spans(current if tracing is not None else None)
