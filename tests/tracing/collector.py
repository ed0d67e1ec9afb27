"""A collector: takes OTLP over HTTP, and shows the spans that came."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.wait import wait_until_sync
from tests.support.web import LocalServer, Quiet


class Seen(NamedTuple):
    """One span as it was delivered."""

    name: str
    trace: str
    span: str
    parent: str
    kind: int
    failed: bool
    attributes: dict[str, Any]
    links: list[str]
    process: str
    """The name of the process that made it."""
    began: int
    ended: int


class Collector(LocalServer):
    """Listens on a free port until the end of the block."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.bodies: list[bytes] = []
        self.held = threading.Event()
        self.held.set()
        self.asked = threading.Event()
        collector = self

        class Taking(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.asked.set()
                collector.held.wait()
                if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
                    self.send_error(404)
                    return
                collector._take(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(Taking)

    def _take(self, body: bytes) -> None:
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            process = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Seen(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.kind,
                            span.status.code == 2,
                            {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
                            [link.span_id.hex() for link in span.links],
                            process["service.instance.id"].rpartition("/")[2],
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                        )
                    )

    def of(self, trace: str) -> list[Seen]:
        """The spans of a trace, by when they began."""
        return sorted((one for one in list(self.spans) if one.trace == trace), key=lambda one: one.began)

    def wait_for(self, trace: str, *names: str) -> list[Seen]:
        """The spans of a trace as soon as all of these are among them, each as often as it is named."""

        def there() -> list[Seen]:
            found = self.of(trace)
            seen = [one.name for one in found]
            return found if all(seen.count(name) >= names.count(name) for name in names) else []

        try:
            return wait_until_sync(there)
        except AssertionError:
            raise AssertionError(f"{names} not among {[one.name for one in self.of(trace)]}") from None

    def __exit__(self, *_: object) -> None:
        self.held.set()
        super().__exit__()
