"""The operators' port: /metrics, /readyz and /healthz.

Front-ends open it if ``admin_port`` is set. ``fleet worker``, which has no other port, opens it if ``worker_port`` is
set.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from coordinator.errors import ToolFailure
from coordinator.metrics import Exposition
from coordinator.processes.supervision.sockets import listening
from coordinator.settings import Settings
from coordinator.transport.http.admin import AdminApp
from coordinator.transport.http.guards import Gate
from coordinator.transport.http.health import Health
from coordinator.transport.http.protocol import bounded

if TYPE_CHECKING:
    from coordinator.store import Store


class Working(Protocol):
    """The parts of a worker process that its operators' port needs."""

    @property
    def store(self) -> Store | None:
        """Its store; None until it is open."""

    @property
    def at_work(self) -> bool:
        """Whether it takes steps."""


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


@contextlib.asynccontextmanager
async def operators_port(app: AdminApp, settings: Settings, setting: str, port: int) -> AsyncGenerator[None, None]:
    """Serves the operators' port while the block runs.

    Args:
        setting: the setting with the port, for messages.
        port: 0: no port is opened.

    Raises:
        ProcessProblem: the port cannot be opened.
    """
    if not port:
        yield
        return
    sock = listening(settings.admin_host or settings.host, port, setting)
    http = bounded(settings.max_header_bytes)
    server = QuietServer(server_config(app, http, lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve([sock]), name="operators' port")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def worker_port(
    settings: Settings, metrics_dir: Path, slot: str
) -> Callable[[Working], contextlib.AbstractAsyncContextManager[None]]:
    """A context manager that serves a worker's port while the worker works.

    Raises:
        ProcessProblem: (from the block) the port cannot be opened.
    """

    def companion(worker: Working) -> contextlib.AbstractAsyncContextManager[None]:
        health = Health(_Steps(worker), Exposition(metrics_dir).text, process=slot)
        gate = Gate(settings.allowed_hosts, (), settings.admin_host or settings.host)
        return operators_port(AdminApp(health, gate), settings, "worker_port", settings.worker_port)

    return companion


class _Steps:
    """The readiness of a worker: it takes steps, and the store answers."""

    def __init__(self, worker: Working) -> None:
        self._worker = worker

    @property
    def scripts_loaded(self) -> bool:
        return self._worker.store is not None and self._worker.store.scripts_loaded

    async def ping(self) -> float:
        if self._worker.store is None or not self._worker.at_work:
            raise ToolFailure("store_unavailable", "no steps are taken: this worker waits for the store, or is ending")
        return await self._worker.store.ping()
