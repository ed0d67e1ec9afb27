"""The operators' port: /metrics, /readyz and /healthz.

Front-ends open it if ``admin_port`` is set. ``fleet worker``, which has no other port, opens it if ``worker_port`` is
set.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from coordinator.errors import ToolFailure
from coordinator.metrics import Exposition
from coordinator.processes.supervision.sockets import listening
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.transport.http.admin import AdminApp
from coordinator.transport.http.guards import Gate
from coordinator.transport.http.health import Health
from coordinator.transport.http.protocol import bounded

if TYPE_CHECKING:
    from workers.process import WorkerProcess


def server_config(app: Any, http: type[asyncio.Protocol], **more: Any) -> uvicorn.Config:
    """uvicorn's configuration for all our ports: it logs nothing, trusts no proxy and sends no ``Server`` header."""
    return uvicorn.Config(
        app,
        loop="none",
        http=http,
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        **more,
    )


class QuietServer(uvicorn.Server):
    """uvicorn's server without its signal handling, which we do ourselves."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class OperatorsPort(Service):
    """Serves the operators' port.

    Args:
        setting: the setting with the port, for messages.
        port: 0: no port is opened.
    """

    def __init__(self, app: AdminApp, settings: Settings, setting: str, port: int) -> None:
        self._address = settings.admin_host or settings.host, port, setting
        http = bounded(settings.max_header_bytes)
        self._server = QuietServer(server_config(app, http, lifespan="off", timeout_graceful_shutdown=1))
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ProcessProblem: the port cannot be opened."""
        if self._address[1]:
            self._serving = asyncio.create_task(self._server.serve([listening(*self._address)]), name="operators' port")

    async def stop(self, deadline: float = 0.0) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving


def worker_port(worker: WorkerProcess, settings: Settings, metrics_dir: Path, slot: str) -> OperatorsPort:
    health = Health(_Steps(worker), Exposition(metrics_dir).text, process=slot)
    gate = Gate(settings.allowed_hosts, (), settings.admin_host or settings.host)
    return OperatorsPort(AdminApp(health, gate), settings, "worker_port", settings.worker_port)


class _Steps:
    """The readiness of a worker: it takes steps, and the store answers."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    @property
    def scripts_loaded(self) -> bool:
        return self._worker.store is not None and self._worker.store.scripts_loaded

    async def ping(self) -> float:
        if self._worker.store is None or not self._worker.at_work:
            raise ToolFailure("store_unavailable", "no steps are taken: this worker waits for the store, or is ending")
        return await self._worker.store.ping()
