"""A fleet as its callers see it: ``Fleet``."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from coordinator.client.errors import error_of
from coordinator.client.retries import Budget, Retryable, RetryPolicy
from coordinator.client.tools import signed, toolset_of
from coordinator.client.wire import Wire

DEFAULT_URL = "http://127.0.0.1:8420"
ANSWER_SECONDS = 10.0
"""How long an attempt may take, besides what the call itself waits. The fleet's own deadline is shorter."""
RETRY_SECONDS = 60.0
"""How long a call is repeated."""
RETRIES_PER_CALL, RETRIES_PER_SECOND = 0.1, 0.5


class Observer:
    """Is told of every attempt and every failure that is retried; override what you need."""

    def answered(self, tool: str, seconds: float) -> None:
        """An attempt was answered."""

    def retried(self, failure: Retryable) -> None:
        """An attempt has failed, and is repeated if there is time."""


class Fleet:
    """The fleet at a URL, for one agent. An async context manager; nothing that it starts outlives the block.

    Args:
        url: of the fleet, with or without ``/mcp``. Default: ``FLEET_URL``, else that of a fleet on this machine.
        token: a bearer token. Default: ``FLEET_TOKEN``, else none.
        project: default: ``FLEET_PROJECT``, else ``default``.
        agent: who acts. With a token it is the caller's own id, also with ``/`` and a suffix. Two processes must not
            use the same one, because an agent holds one claim at a time. Default: ``FLEET_AGENT``, else a name that no
            other process has; with a token a slot of the caller. Empty: the caller whom the token names.
        slots: how many jobs it does side by side. Several slots act as ``<agent>/1``, ``<agent>/2`` and so on.
        parent: the agent that dispatched this one, for the record.
        kind: orchestrator, subagent, user or external.
        observer: is told of all calls.
        patience: how long a call is repeated, in seconds.

    Raises:
        ValueError: one of these is not allowed.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        slots: int = 1,
        *,
        parent: str | None = None,
        kind: str = "subagent",
        observer: Observer | None = None,
        patience: float = RETRY_SECONDS,
    ) -> None:
        if slots < 1:
            raise ValueError("slots must be 1 or more")
        self.url = base_url(url or os.environ.get("FLEET_URL") or DEFAULT_URL)
        self.project = project or os.environ.get("FLEET_PROJECT") or "default"
        self.token = os.environ.get("FLEET_TOKEN", "") if token is None else token
        self.agent = agent if agent is not None else os.environ.get("FLEET_AGENT") or _own_name(bool(self.token))
        self.slots = slots
        self._more = {"kind": kind} if parent is None else {"kind": kind, "parent": parent}
        self._observer = observer or Observer()
        budget = Budget(time.monotonic, RETRIES_PER_SECOND, RETRIES_PER_CALL)
        self._retries = RetryPolicy(budget, patience, self._observer.retried)
        self._wire = Wire(self.url, self.token, self.project)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.close()
        # The transports close in the next turn of the loop.
        await asyncio.sleep(0)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        toolset: str | None = None,
        agent: str | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> dict[str, Any]:
        """Calls a tool and returns its structured answer.

        Actor and ``requestId`` are filled in where the tool takes them and they are not given. What may succeed later
        is repeated, unchanged and so with the same ``requestId``, while the fleet has patience.

        Args:
            arguments: as ``fleet tools`` shows them.
            toolset: needed only if several toolsets have a tool of that name.
            agent: who acts, if it is not the agent of the fleet.
            seconds: how long an attempt may take, besides its ``waitMs``.

        Raises:
            FleetError: see ``errors``. ``Unavailable``: it could not be made in time.
        """
        chosen = toolset_of(tool) if toolset is None else toolset
        given = signed(tool, arguments or {}, self.actor(agent))
        waits = given.get("waitMs")
        if isinstance(waits, int):
            seconds += waits / 1000

        async def attempt() -> dict[str, Any]:
            began = time.perf_counter()
            answer = await self._wire.call(chosen, tool, given, seconds)
            self._observer.answered(tool, time.perf_counter() - began)
            return answer

        try:
            return await self._retries.run(attempt)
        except Retryable as failure:
            raise error_of("unavailable", f"{tool}: {failure}") from None

    def actor(self, agent: str | None = None) -> dict[str, str] | None:
        """The actor as calls name it; None: the caller whom the token names."""
        name = agent or self.agent
        return {"id": name, **self._more} if name else None

    def slot(self, number: int) -> str:
        """The agent of a slot, from 0."""
        if self.slots == 1:
            return self.agent
        # A slot has no slots of its own.
        return f"{self.agent}{'-' if '/' in self.agent else '/'}{number + 1}"


def base_url(url: str) -> str:
    """The URL of a fleet without the path of an endpoint.

    Raises:
        ValueError: it is no URL with http or https.
    """
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a fleet, such as {DEFAULT_URL}")
    path = parts.path.rstrip("/")
    for end in ("/mcp",):
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _own_name(identified: bool) -> str:
    host = "".join(char if char.isascii() and char.isalnum() else "-" for char in socket.gethostname())[:30].strip("-")
    name = f"{host or 'agent'}-{os.getpid()}-{uuid4().hex[:8]}"
    return f"/{name}" if identified else name
