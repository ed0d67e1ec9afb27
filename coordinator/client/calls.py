"""Calls: who makes them, where to, and how they are repeated."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4
from weakref import WeakValueDictionary

from coordinator.backoff import Backoff
from coordinator.client.errors import Unavailable, error_of
from coordinator.client.http import urls_of
from coordinator.client.retries import Budget, Retryable, RetryPolicy
from coordinator.client.tools import TOLD_BY_HEADER, repeatable, signed, toolset_of
from coordinator.client.wire import Wire

_log = logging.getLogger(__name__)
DEFAULT_URL = "http://127.0.0.1:8420"
_PROJECT = re.compile(r"/p/([^/]+)(?:/mcp(?:/[^/]*)?)?/?\Z")
_ENDPOINT = re.compile(r"(?:/p/(?P<project>[^/]*))?/mcp(?:/[^/]*)?/?\Z")
ANSWER_SECONDS = 10.0
"""How long an attempt may take, besides what the call itself waits. The fleet's own deadline is shorter."""
PATIENCE_SECONDS = 60.0
LOOKING_SECONDS = 10.0
"""How long a claim is repeated before the loop over jobs pauses."""
RETRIES_PER_CALL, RETRIES_PER_SECOND = 0.1, 0.5
ONE_EACH = "make one after the fork, in each process that needs one"
WAIT_MS = 49_000
"""How long a call waits. The fleet answers then at the latest; the next call waits on."""
_LONGEST_AWAY = 30.0
_SHARED: WeakValueDictionary[str, Budget] = WeakValueDictionary()
"""By URL."""


class _Forks:
    """How often this process has become a child by a fork: that tells it from its parent without a system call."""

    count: ClassVar[int] = 0

    @classmethod
    def note(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.note)


class Observer:
    """Is told of every attempt and every failure that is retried; override what you need."""

    def answered(self, tool: str, seconds: float) -> None:
        """An attempt was answered."""

    def retried(self, failure: Retryable) -> None:
        """An attempt has failed, and is repeated if there is time."""


class Calls:
    """Calls the tools of a fleet as one agent; the arguments are those of ``Fleet``."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        project: str | None,
        agent: str | None,
        parent: str | None,
        kind: str,
        observer: Observer | None,
        patience: float,
    ) -> None:
        self.url, named = address(url or os.environ.get("FLEET_URL") or DEFAULT_URL)
        self.project = project or named or os.environ.get("FLEET_PROJECT") or "default"
        self.token = (os.environ.get("FLEET_TOKEN", "") if token is None else token).strip()
        self.agent = agent if agent is not None else os.environ.get("FLEET_AGENT") or _own_name(bool(self.token))
        self._more = {"kind": kind} if parent is None else {"kind": kind, "parent": parent}
        self._observer = observer
        budget = Budget(time.monotonic, RETRIES_PER_SECOND, RETRIES_PER_CALL)
        self._patience = patience
        self._forks, self._process = -1, 0
        """How often the process that it is bound to was forked, and its id; -1: it is bound to none yet."""
        if agent is None and not os.environ.get("FLEET_AGENT"):
            self.check_process()  # a name that it has given itself is that of one process
        self._told = False
        self._retries = RetryPolicy(budget, patience, self._failed)
        # Agents that look for work are many, and can wait: those of a process share what they may repeat.
        self._shared = _SHARED.setdefault(self.url, Budget(time.monotonic, RETRIES_PER_SECOND, RETRIES_PER_CALL))
        self._looking = RetryPolicy(self._shared, min(patience, LOOKING_SECONDS), self._failed)
        self._wire = Wire(self.url, self.token, self.project)
        self.sent = self._wire.sent

    def _failed(self, failure: Retryable) -> None:
        if failure.reason == "unreachable" and not self._told:
            self._told = True  # once: who waits at a terminal wants to know
            _log.warning("the fleet at %s cannot be reached; trying for %.0f s", self.url, self._patience)
        if self._observer is not None:
            self._observer.retried(failure)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        toolset: str | None = None,
        agent: str | None = None,
        seconds: float = ANSWER_SECONDS,
        looks: bool = False,
    ) -> dict[str, Any]:
        """The structured answer of a tool.

        Args:
            toolset: of the tool; None: the only one that has it.
            agent: who acts; None: the agent of the fleet.
            seconds: how long an attempt may take, besides what the call itself waits.
            looks: whether it looks for work: such calls share what they may repeat.

        Raises:
            FleetError: it was refused, or the fleet did not answer in time (``Unavailable``).
            RuntimeError: in a child of the process that the fleet is bound to.
        """
        self.check_process()
        chosen = toolset_of(tool) if toolset is None else toolset
        given = signed(tool, arguments or {}, self.actor(agent))
        named = (agent or self.agent) if chosen in TOLD_BY_HEADER else ""
        waits = given.get("waitMs")
        if isinstance(waits, int):
            seconds += waits / 1000
        retries = self._looking if looks else self._retries
        began = time.perf_counter()
        try:
            answer = await self._wire.call(chosen, tool, given, seconds, named)
        except Retryable as failure:
            attempt = partial(self._wire.call, chosen, tool, given, seconds, named)
            return await self._repeated(tool, failure, attempt, retries, repeatable(chosen, tool, given))
        if self._observer is not None:
            self._observer.answered(tool, time.perf_counter() - began)
        retries.succeeded()
        return answer

    def look(self, arguments: Mapping[str, Any], agent: str) -> Coroutine[Any, Any, dict[str, Any]]:
        """Claims an item if there is one."""
        return self.call("claim_item", arguments, agent=agent, looks=True)

    async def until_met(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a tool with ``waitFor``, when that is so. Goes on while the fleet cannot be reached."""
        failures = 0
        while True:
            try:
                answer = await self.call(tool, {**arguments, "waitMs": WAIT_MS})
            except Unavailable:
                await asyncio.sleep(away_seconds(failures))
                failures += 1
                continue
            failures = 0
            if answer["waited"]["met"]:
                return answer

    async def _repeated(
        self,
        tool: str,
        first: Retryable,
        attempt: Callable[[], Awaitable[dict[str, Any]]],
        retries: RetryPolicy,
        again: bool,
    ) -> dict[str, Any]:
        """The answer of an attempt that is repeated, as the first one has failed.

        Args:
            again: whether it is repeated although it may have been carried out.
        """

        def check(failure: Retryable) -> None:
            if not (again or failure.refused):
                why = f"{tool}: {failure}; it may have been carried out, and without a requestId it is not repeated"
                raise error_of("unavailable", why) from None

        async def timed() -> dict[str, Any]:
            began = time.perf_counter()
            try:
                answer = await attempt()
            except Retryable as failure:
                check(failure)
                raise
            if self._observer is not None:
                self._observer.answered(tool, time.perf_counter() - began)
            return answer

        check(first)
        try:
            return await retries.go_on(first, timed)
        except Retryable as last:
            raise error_of("unavailable", f"{tool}: {last}") from None

    @property
    def at(self) -> str:
        """The one of several URLs that calls go to now."""
        return self._wire.at

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one in which the fleet was opened."""
        return self._forks not in (-1, _Forks.count)

    def check_process(self) -> None:
        """Binds the fleet to this process: a child does not have its connections and threads (RuntimeError)."""
        if self._forks == _Forks.count:
            return
        if self._forks >= 0:
            raise RuntimeError(f"this client was opened in another process ({self._process}): {ONE_EACH}")
        self._forks, self._process = _Forks.count, os.getpid()

    def actor(self, agent: str | None = None) -> dict[str, str] | None:
        """The actor as calls name it; None: the caller whom the token names."""
        name = agent or self.agent
        return {"id": name, **self._more} if name else None

    async def feed(self, query: str) -> dict[str, Any]:
        self.check_process()
        waits = int(parse_qs(query).get("waitMs", ["0"])[0])
        attempt = partial(self._wire.get, f"feed/{self._wire.project}?{query}", 10 + waits / 1000)
        try:
            answer: dict[str, Any] = await attempt()
            self._retries.succeeded()
        except Retryable as failure:
            try:
                answer = await self._retries.go_on(failure, attempt)
            except Retryable as last:
                raise error_of("unavailable", f"the feed: {last}") from None
        return answer


def away_seconds(failures: int) -> float:
    """The pause after a call has failed in all its repetitions, as so many calls have before it."""
    return Backoff(1.0, _LONGEST_AWAY).after(failures)


def address(url: str) -> tuple[str, str]:
    """The URL of a fleet without the path of an endpoint, and the project that this path names; empty: none.

    Args:
        url: or several after commas.

    Raises:
        ValueError: it is no URL with http or https, only some have a scheme, or they name several projects.
    """
    urls = urls_of(url) or [url]
    addresses = [_address(text) for text in urls]
    if len({"//" in text for text in urls}) > 1:
        raise ValueError(f"{url!r}: each URL must begin with http:// or https://, or none")
    # Also without /mcp: calls to such a URL come to that project, or to none.
    if len({tuple(_PROJECT.findall(urlsplit(text).path)) for text in urls}) > 1:
        raise ValueError(f"{url!r} names several projects, or not each URL the same")
    return ",".join(dict.fromkeys(address for address, _ in addresses)), addresses[0][1]


def _address(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise ValueError(f"{url!r} is not the URL of a fleet, such as {DEFAULT_URL}") from None
    match = _ENDPOINT.search(parts.path)
    path = parts.path[: match.start()] if match is not None else parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}", (match["project"] or "") if match is not None else ""


def _own_name(identified: bool) -> str:
    host = "".join(char if char.isascii() and char.isalnum() else "-" for char in socket.gethostname())[:30].strip("-")
    name = f"{host or 'agent'}-{os.getpid()}-{uuid4().hex[:8]}"
    return f"/{name}" if identified else name
