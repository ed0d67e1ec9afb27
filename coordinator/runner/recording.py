"""Where the metrics of a runner are recorded: on a page of its own, else with those of a fleet on this host."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, NamedTuple

from coordinator import __version__
from coordinator.metrics import (
    CONTENT_TYPE,
    Exposition,
    MemoryCells,
    Recording,
    SharedCells,
    clear_free_slots,
    forget_gauges,
    install,
    process,
    reserved_slots,
    start,
)
from coordinator.metrics.cells import Cells


class CannotRecord(Exception):
    """A directory cannot be written, or an address not be used; the message names the option."""

    def __init__(self, message: str, kind: Literal["usage", "port_busy", "data_dir"]) -> None:
        super().__init__(message)
        self.kind = kind


class Page(NamedTuple):
    """The page that a runner serves of itself."""

    address: str
    """``[host:]port``; port 0 is any that is free."""
    target: Path | None = None
    """Where its address is written, for Prometheus."""
    name: str = ""
    """The entry of the setting ``runners``; empty: none."""


@contextlib.contextmanager
def measured(state: Path, page: Page | None, fleet: Path | None) -> Iterator[None]:
    """Records metrics while the block runs, in one place, so that nothing counts twice.

    They are on the page of this runner; without one where FLEET_METRICS_DIR says, else with those of the fleet.

    Args:
        page: what is served.
        fleet: the directory of the metrics of the fleet that is called, if it is on this host; None: it is not.

    Raises:
        CannotRecord: the directory cannot be written, or the address not be used.
    """
    named = os.environ.get("FLEET_METRICS_DIR")
    with contextlib.ExitStack() as held:
        if page is not None:
            directory = _pages(state) / _slot(held, _pages(state))
            # Its numbers begin at 0, and are those of no other runner.
            clear_free_slots(directory)
            _record(held, *_cells(held, directory))
            held.enter_context(_served(Exposition(directory), page))
        elif named:
            _record(held, *_cells(held, Path(named)))
        else:
            try:
                cells = _cells(held, fleet) if fleet is not None else None
            except CannotRecord:  # the fleet is of another user: work does not depend on it
                cells = None
            _record(held, *(cells or (MemoryCells(), "run-0")))
        yield


def metrics_directories(state: Path) -> list[Path]:
    """Where the metrics of runners are: those with a page of their own, and those that are told where. Those of a fleet
    are in its data directory."""
    named = os.environ.get("FLEET_METRICS_DIR")
    return [_pages(state), *([Path(named)] if named else [])]


def _pages(state: Path) -> Path:
    return state / "metrics"


def _record(held: contextlib.ExitStack, cells: Cells, slot: str) -> None:
    own = Recording(cells, slot)
    held.callback(own.close)
    held.callback(install, install(own))
    process.note_build(__version__)
    start("runner")


def _cells(held: contextlib.ExitStack, directory: Path) -> tuple[Cells, str]:
    """Numbers in a slot of a directory. Its gauges go with the runner, its counters stay for the next one."""
    slot = _slot(held, directory)
    try:
        cells = SharedCells(directory, slot)
    except OSError as error:
        raise _unwritable(directory, error) from None
    held.callback(forget_gauges, directory, slot)
    return cells, slot


def _slot(held: contextlib.ExitStack, directory: Path) -> str:
    """A name that no other runner has in a directory."""
    try:
        return held.enter_context(reserved_slots(directory, "run", 1))[0]
    except OSError as error:
        raise _unwritable(directory, error) from None


def _unwritable(directory: Path, error: OSError) -> CannotRecord:
    return CannotRecord(f"cannot keep metrics in {directory}: {error.strerror}", "data_dir")


@contextlib.contextmanager
def _served(exposition: Exposition, page: Page) -> Iterator[None]:
    address = page.address
    host, _, port = address.rpartition(":")
    try:
        server = _Server((host.strip("[]") or "127.0.0.1", int(port)), _handler(exposition))
    except (ValueError, OverflowError):
        raise CannotRecord(f"--metrics: must be a port, or host:port, not {address}", "usage") from None
    except OSError as error:
        raise CannotRecord(f"--metrics {address}: {error.strerror}", "port_busy") from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        if page.target is not None:
            _write_target(page.target, f"{host or '127.0.0.1'}:{server.server_address[1]}", page.name)
        yield
    finally:
        if page.target is not None:
            page.target.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()
        thread.join()


def _write_target(file: Path, address: str, name: str) -> None:
    """Writes where a page is, as Prometheus reads it (``file_sd_configs``)."""
    labels = {"instance": f"{socket.gethostname()}/{name}"} if name else {}
    fresh = file.with_suffix(".new")
    try:
        fresh.write_text(json.dumps([{"targets": [address], "labels": labels}]) + "\n")
        fresh.chmod(0o644)  # Prometheus is another user
        fresh.replace(file)
    except OSError as error:
        raise CannotRecord(f"--metrics-target {file}: {error.strerror}", "usage") from None


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
