"""The port that is for operators alone: /metrics, /readyz and /healthz.

Front-ends open it where ``admin_port`` is set; ``fleet worker``, which has no other port, where
``worker_port`` is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from coordinator.cli.sockets import listening
from coordinator.errors import ToolFailure
from coordinator.metrics import Exposition
from coordinator.settings import Settings
from coordinator.transport.admin import AdminApp
from coordinator.transport.guards import Gate
from coordinator.transport.health import Health
from coordinator.transport.protocol import bounded

if TYPE_CHECKING:
    from coordinator.store import Store


class Working(Protocol):
    """What is asked of a worker process."""

    @property
    def store(self) -> Store | None:
        """None until it answers."""

    @property
    def at_work(self) -> bool:
        """Whether it takes steps."""


def server_config(app: Any, http: type[asyncio.Protocol], **more: Any) -> uvicorn.Config:
    """uvicorn's settings for any port of ours: it logs nothing, trusts no proxy and does not say what it is."""
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
    """uvicorn's server, which leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@contextlib.asynccontextmanager
async def operators_port(app: AdminApp, settings: Settings, setting: str, port: int) -> AsyncGenerator[None, None]:
    """Answers operators for as long as the block runs.

    Args:
        setting: names the port, for a refusal.
        port: 0: there is none.

    Raises:
        CommandFailed: the port cannot be had.
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
    """What a worker opens beside its work.

    Raises:
        CommandFailed: (from the block) the port cannot be had.
    """

    def beside(worker: Working) -> contextlib.AbstractAsyncContextManager[None]:
        health = Health(_Steps(worker), Exposition(metrics_dir).text, process=slot)
        gate = Gate(settings.allowed_hosts, (), settings.admin_host or settings.host)
        return operators_port(AdminApp(health, gate), settings, "worker_port", settings.worker_port)

    return beside


class _Steps:
    """A worker is ready when it takes steps and the store answers."""

    def __init__(self, worker: Working) -> None:
        self._worker = worker

    @property
    def scripts_loaded(self) -> bool:
        return self._worker.store is not None and self._worker.store.scripts_loaded

    async def ping(self) -> float:
        if self._worker.store is None or not self._worker.at_work:
            raise ToolFailure("store_unavailable", "no steps are taken: this worker waits for the store, or is ending")
        return await self._worker.store.ping()
