"""The metrics of ``fleet run``: in a directory that all runners of a host share, and on a port if one is given."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coordinator import __version__
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.metrics import CONTENT_TYPE, Exposition, Recorder, SharedCells, forget_gauges, install, reserved_slots


@contextlib.contextmanager
def measured(state: Path, address: str | None) -> Iterator[None]:
    """Records metrics while the block runs, and serves them at an address.

    FLEET_METRICS_DIR names the directory, so that a fleet on the same host shows them with its own.

    Args:
        address: ``[host:]port``; None: nothing is served.

    Raises:
        CommandFailed: the directory cannot be written, or the address not be used.
    """
    directory = metrics_directory(state)
    with contextlib.ExitStack() as held:
        try:
            (slot,) = held.enter_context(reserved_slots(directory, "run", 1))
            recorder = Recorder(SharedCells(directory, slot), slot)
        except OSError as error:
            raise CommandFailed(f"cannot keep metrics in {directory}: {error.strerror}", Exit.DATA_DIR) from None
        held.callback(forget_gauges, directory, slot)
        held.callback(recorder.close)
        recorder.build(__version__)
        recorder.start_runner()
        install(recorder)
        if address is not None:
            held.enter_context(_served(Exposition(directory), address))
        yield


def metrics_directory(state: Path) -> Path:
    """Where the metrics of runners are."""
    return Path(os.environ.get("FLEET_METRICS_DIR") or state / "metrics")


@contextlib.contextmanager
def _served(exposition: Exposition, address: str) -> Iterator[None]:
    host, _, port = address.rpartition(":")
    try:
        server = _Server((host.strip("[]") or "127.0.0.1", int(port)), _handler(exposition))
    except (ValueError, OverflowError):
        raise CommandFailed(f"--metrics: must be a port, or host:port, not {address}", Exit.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"--metrics {address}: {error.strerror}", Exit.PORT_BUSY) from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _handler(exposition: Exposition) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, exposition.text(), CONTENT_TYPE)
            elif self.path == "/healthz":
                self._answer(200, b'{"status":"alive"}', "application/json")
            else:
                self._answer(404, b"only /metrics and /healthz are here\n", "text/plain")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    return Handler
