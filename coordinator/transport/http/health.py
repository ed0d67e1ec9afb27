"""``/healthz``, ``/readyz`` and ``/metrics``.

Liveness depends on nothing outside this process, so that a failing Redis does not restart the whole fleet. Readiness
checks what the process needs to answer a call. It fails for a read-only store, which cannot even record a heartbeat.
It passes for a full one, which still serves reads, repeated calls and deletions, and these free memory. The result is
cached for a second, so that probes cannot become load. Each check shows its age and how long it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import CONTENT_TYPE
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.transport.http.guards import check_get
from coordinator.transport.http.replies import Send, reply, to_json

PROBES = frozenset(("/healthz", "/readyz", "/metrics"))
PROBES_OF_CLIENTS = frozenset(("/healthz",))
"""The probes that the clients' port still answers if there is a separate port for operators."""

FRESH_SECONDS = 1.0
"""How long the answer of the store's last check is used."""

_log = structlog.get_logger(__name__)


class Pingable(Protocol):
    """What readiness needs of the store."""

    @property
    def scripts_loaded(self) -> bool:
        """Whether the server knows every script."""

    async def ping(self) -> float:
        """Seconds until the server answered.

        Raises:
            ToolFailure: it does not answer, or takes no writes.
        """


class Health:
    """The three endpoints of one process.

    Args:
        render_metrics: the metrics of all processes of this host; reads files, so it is called in a thread.
        config: what /readyz says about the configuration in force; it does not decide readiness.
        identity: what it says about the verification of actors and the state of keys.
        auth: what it says about the authentication of callers.
        process: the name of this process; several processes share a port.
    """

    def __init__(
        self,
        store: Pingable,
        render_metrics: Callable[[], bytes],
        *,
        config: Callable[[], Mapping[str, Any]] = dict,
        identity: Callable[[], Mapping[str, Any]] = dict,
        auth: Callable[[], Mapping[str, Any]] = dict,
        process: str = "",
    ) -> None:
        self._store = store
        self._render = render_metrics
        self._more = {"config": config, "identity": identity, "auth": auth}
        self._process = process
        self.draining = False
        self.drained = ""
        """The scope of the drain that covers this process: fleet, host:..., process:...; '' for none."""
        self._checks: dict[str, dict[str, Any]] = {}
        self._checked_at = float("-inf")
        self._checking: asyncio.Task[None] | None = None
        self._rendering: asyncio.Task[bytes] | None = None

    async def answer(self, path: str, method: str, send: Send) -> None:
        """Answers one of ``PROBES``.

        Raises:
            Refused: 405.
        """
        check_get(path, method)
        if path == "/healthz":
            await reply(send, 200, b'{"status":"alive"}')
        elif path == "/readyz":
            ready, checks = await self.readiness()
            await reply(send, 200 if ready else 503, to_json(checks), headers=[(b"cache-control", b"no-store")])
        else:
            await reply(send, 200, await self._metrics(), CONTENT_TYPE.encode())

    async def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process should get requests, and the results of the checks."""
        if perf_counter() - self._checked_at > FRESH_SECONDS:
            # Concurrent probes share one check of the store.
            if self._checking is None:
                self._checking = asyncio.create_task(self._check(), name="readiness")
            await asyncio.shield(self._checking)
        age = round((perf_counter() - self._checked_at) * 1000, 3)
        checks = {name: {**result, "ageMs": age} for name, result in self._checks.items()}
        checks["draining"] = {"ok": not self.draining, "latencyMs": 0.0, "ageMs": 0.0}
        if self.drained:
            # While the whole fleet is drained, something must still answer the admitted calls.
            checks["drained"] = {
                "ok": self.drained == FLEET_SCOPE,
                "scope": self.drained,
                "latencyMs": 0.0,
                "ageMs": 0.0,
            }
        ready = all(result["ok"] for result in checks.values())
        answer: dict[str, Any] = {"ready": ready, "checks": checks}
        if self._process:
            answer["process"] = self._process
        for name, report in self._more.items():
            if problem := report():
                answer[name] = problem
        return ready, answer

    async def _metrics(self) -> bytes:
        """The body of /metrics; concurrent requests share one."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(asyncio.to_thread(self._render), name="metrics")
            self._rendering.add_done_callback(self._rendered)
        return await asyncio.shield(self._rendering)

    def _rendered(self, _task: asyncio.Task[bytes]) -> None:
        self._rendering = None

    async def _check(self) -> None:
        began = perf_counter()
        redis: dict[str, Any] = {"ok": True}
        try:
            seconds = await self._store.ping()
        except Exception as error:
            seconds = perf_counter() - began
            redis = {"ok": False, "reason": error.message if isinstance(error, ToolFailure) else "a defect"}
            if not isinstance(error, ToolFailure):
                _log.exception("readiness check failed")
        redis["latencyMs"] = round(seconds * 1000, 3)
        self._checks = {"redis": redis, "scripts": {"ok": self._store.scripts_loaded, "latencyMs": 0.0}}
        self._checked_at = perf_counter()
        self._checking = None
