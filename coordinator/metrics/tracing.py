"""Spans of tool calls, Lua scripts and steps, for a collector that takes OTLP over HTTP.

A process that is to trace calls ``start`` once, after it was forked: the exporter has a thread.
Everywhere else ``active()`` is None, and that is all that tracing costs.

**Where a trace goes.** A call's span continues the trace that the caller names in ``_meta`` (``traceparent``,
``tracestate``: W3C trace context); scripts that it runs are spans below it. What a call begins that goes on
without it, a run of steps, is stored with ``carried()``, so that spans of its steps, in whichever worker and
attempt, are below the call too. Calls of downstream servers carry the context of their step: the MCP client takes
it from OpenTelemetry's current span. No provider is registered globally, so spans that libraries would make of
their own accord come to nothing, and none is there twice.

**What a span says** is names and bounded ids, never arguments, results, messages of failures or actors. What is
logged meanwhile says which span it belongs to (``logs``).
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

Observe = Callable[[str, float, str], None]
"""As ``coordinator.store.store`` has it."""
FLUSH_SECONDS = 1.0
"""How long a process that ends waits for its last spans to be delivered."""
_DELAY_MS = 1_000
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
"""Outcomes of whatever kind that make a span a failed one."""


class TracingUnavailable(Exception):
    """What tracing needs is not installed."""


def trace_of(traceparent: object, tracestate: object) -> str:
    """The trace that a caller names, in the form of ``carried``; empty: none, or none that makes sense."""
    if not isinstance(traceparent, str) or not _PARENT.fullmatch(traceparent):
        return ""
    if isinstance(tracestate, str) and _STATE.fullmatch(tracestate):
        return f"{traceparent} {tracestate}"
    return traceparent


def carried() -> str:
    """The trace that goes on here, to be stored with what continues it: traceparent, and tracestate after a blank.

    Empty where nothing is traced.
    """
    if _active is None or not get_current_span().get_span_context().is_valid:
        return ""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return trace_of(carrier.get("traceparent"), carrier.get("tracestate"))


def current() -> tuple[str, str] | None:
    """The ids of the trace and of the span that goes on here, in hex digits; None: nothing is traced here.

    What was begun by a call and outlives it belongs to none.
    """
    scope = contexts.get_value(_SCOPE)
    if not isinstance(scope, Scope) or not scope.open:
        return None
    span = scope.span.get_span_context()
    return format_trace_id(span.trace_id), format_span_id(span.span_id)


class Scope:
    """A span that is going on. It is current in the task that began it until ``leave``."""

    __slots__ = ("_token", "context", "links", "open", "span")

    def __init__(self, span: Span, links: Sequence[Link] = ()) -> None:
        self.span = span
        self.links = links
        self.open = True
        """Whether scripts that run in it are spans below it; what outlives it may still have it as current."""
        self.context = contexts.set_value(_SCOPE, self, set_span_in_context(span, contexts.Context()))
        self._token: Token[contexts.Context] | None = contexts.attach(self.context)

    def name_tool(self, tool: str) -> None:
        """Says which tool a step calls."""
        self.span.set_attribute("gen_ai.tool.name", tool[:_LONGEST_ID])

    def end(self, outcome: str, code: str = "") -> None:
        """Ends the span; only the first outcome counts.

        Args:
            code: of the error catalogue, where something failed.
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
        """Ends what ``Tracing.reporting`` began; the spans themselves have ended before."""
        self.open = False
        self.leave()

    def leave(self) -> None:
        """Makes the former span current again; to be called by the task that began this one."""
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
            trace: what ``trace_of`` found; empty: a trace begins here.
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
            trace: as the run has it.
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
        """A Lua script ended; a span if it ran for a call or a step. Takes what ``Store.observe`` is told."""
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
        """Scripts of the present task report these steps: below the first one from now on, linked to the others.

        ``Scope.forget`` ends that.
        """
        return Scope(steps[0].span, [Link(step.span.get_span_context()) for step in steps[1:]])

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Delivers what has not been, as far as that takes no longer."""
        # Nothing bounds the exporter's own end where its collector does not answer.
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
    """An observer for ``Store.observe`` that calls ``observe``, and makes spans of scripts if anything is traced."""
    tracing = _active
    if tracing is None:
        return observe
    trace = tracing.script

    def both(script: str, seconds: float, outcome: str) -> None:
        observe(script, seconds, outcome)
        trace(script, seconds, outcome)

    return both


def start(endpoint: str, sample_ratio: float, version: str, slot: str) -> Tracing:
    """Has this process traced from now on.

    Args:
        endpoint: URL of the collector; without a path ``/v1/traces`` is added.
        sample_ratio: share of the traces that begin here, from 0 to 1. Who begins one elsewhere decides himself.
        slot: the process's name within its fleet.

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
    # It would say of every batch what the exporter says at the end.
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
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_QUEUE, schedule_delay_millis=_DELAY_MS))
    tracing = Tracing(provider, provider.get_tracer("fleet-coordinator", version))
    install(tracing)
    return tracing


def stop() -> None:
    """Ends tracing, and delivers the spans that were not delivered yet."""
    tracing = _active
    install(None)
    if tracing is not None:
        with contextlib.suppress(Exception):
            tracing.close()


def install(tracing: Tracing | None) -> None:
    """Makes ``tracing`` that of this process; None: nothing is traced any more."""
    global _active
    _active = tracing
    logs.name_spans(current if tracing is not None else None)
