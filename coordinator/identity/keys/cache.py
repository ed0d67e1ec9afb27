"""A cache of the keys of one source, renewed in the background, in one process.

Guaranteed:

* With fresh keys, no call waits, whatever the key server does. Only two kinds of calls wait for it: those that no known
  key can answer, and the first ones that need keys which were unused for longer than their time to live. They wait at
  most ``WAIT_SECONDS`` after the request to the key server began.
* A process has at most one request to a source under way, and the fleet at most one per cooldown, even after failures
  (``copies``). No lock is held during the request. A scheduled renewal does not start a whole cooldown, so that a key
  that is published right after it can still be found.
* Only a document with at least one usable key replaces keys.

Without the store (``copies`` is None, or the store does not answer) the process has a cooldown of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from coordinator.errors import ToolFailure
from coordinator.identity.clock import FleetClock
from coordinator.identity.keys.copies import FetchReply, KeyCopies
from coordinator.identity.keys.keyset import KeySet
from coordinator.identity.keys.sources import Loaded, RemoteSource, Source, SourceFailed
from coordinator.identity.metrics import KEY_FETCHES
from coordinator.store import ServerError

COOLDOWN_SECONDS = 30.0
FILE_COOLDOWN_SECONDS = 1.0
FILE_LOOK_SECONDS = 5.0
WAIT_SECONDS = 1.0
START_SECONDS = 2.0
MOST_WAITING = 1_000
"""How many calls may wait for one source at a time; further ones fail at once as ``unavailable``."""
RENEW_AT = 0.8
"""After this part of their time to live, keys are renewed."""
SHORT_REST = 1 / 30
"""After a scheduled renewal, a source may be asked again after this part of the cooldown."""
_SHORTEST = 0.001
LEASE_SECONDS = 8.0
"""How long a request to a source may take before its process is presumed dead."""
_PAUSES = (0.05, 0.2, 0.5, 1.0)
_LOOKS = (0.02, 0.04, 0.08, 0.16, 0.25)

_log = structlog.get_logger(__name__)
_NONE = KeySet()


class KeyCache:
    """The keys of one source, and how fresh they are.

    Args:
        ttl: how long keys count as fresh, in seconds.
        stale_on_error: whether older keys are used while they cannot be renewed.
        copies: the fleet's copies of remote sources; None: this process is alone.
        cooldown: seconds between requests to the source; None: derived from ``ttl``.
    """

    def __init__(
        self,
        source: Source,
        clock: FleetClock,
        copies: KeyCopies | None,
        *,
        ttl: float,
        stale_on_error: bool,
        cooldown: float | None,
    ) -> None:
        self.source = source
        self.keys = _NONE
        self.issuer = ""
        self.trouble = ""
        """Why the last attempt to renew the keys failed; empty: it succeeded."""
        self.trouble_kind = "network"
        self._ttl = ttl
        self._stale_on_error = stale_on_error
        self._clock = clock
        remote = source if isinstance(source, RemoteSource) else None
        self._shared = (copies, remote) if copies is not None and remote is not None else None
        """The fleet's copies and their source; None: this process fetches for itself."""
        if cooldown is None:
            cooldown = min(COOLDOWN_SECONDS if remote is not None else FILE_COOLDOWN_SECONDS, ttl / 2)
        self._cooldown = max(cooldown, _SHORTEST)
        self._period = RENEW_AT * ttl if remote is not None else min(RENEW_AT * ttl, FILE_LOOK_SECONDS)
        self._version = 0
        self.fetched: float | None = None
        """When the source gave these keys, by the monotonic clock; None: it has given none."""
        self.next_ask = 0.0
        """From when on the source may be asked again, by the monotonic clock."""
        self._began = 0.0
        self.asked = -math.inf
        """When the source last answered or failed, by the monotonic clock."""
        self.renewing: asyncio.Task[None] | None = None
        """The renewal under way, if there is one."""
        self._answered = asyncio.Event()
        """Cleared while an answer of the source, or of the process that is asking it, is outstanding."""
        self._answered.set()
        self._keeping: asyncio.Task[None] | None = None
        self.waiting = 0
        """How many calls wait for the source."""

    @property
    def loaded(self) -> bool:
        """Whether the source has ever given anything."""
        return self.fetched is not None

    @property
    def age(self) -> float:
        """Seconds since the source gave these keys."""
        return time.monotonic() - self.fetched if self.fetched is not None else 0.0

    @property
    def fresh(self) -> bool:
        """Whether the keys are within their time to live."""
        return self.fetched is not None and time.monotonic() - self.fetched <= self._ttl

    @property
    def answers(self) -> bool:
        """Whether tokens may be verified with the keys now."""
        return self.fetched is not None and (self._stale_on_error or self.fresh)

    @property
    def left_alone(self) -> bool:
        """Whether the keys are out of date only because nobody has asked the source, not because it failed."""
        return self.loaded and not self.fresh and not self.asked_since(time.monotonic() - self._ttl)

    @property
    def sound(self) -> bool:
        """Whether a key that is not among the keys certainly does not exist."""
        return not self.trouble and self.answers and self._answered.is_set()

    def asked_since(self, moment: float) -> bool:
        """Whether the source answered, or failed, after a moment of the monotonic clock."""
        return self.asked >= moment

    def loaded_since(self, moment: float) -> bool:
        """Whether the source gave these keys after a moment of the monotonic clock."""
        return self.fetched is not None and self.fetched >= moment

    @property
    def may_ask(self) -> bool:
        """Whether asking the source, or waiting for the process that is asking it, can help now."""
        return not self._answered.is_set() or time.monotonic() >= self.next_ask

    async def start(self) -> None:
        """Loads the fleet's copy, and keeps the keys fresh in the background from now on.

        If there is no copy, waits for the source, at most ``START_SECONDS``.
        """
        await self.take_copy()
        ends = time.monotonic() + START_SECONDS
        while not self.loaded and not self.trouble and time.monotonic() < ends:
            self.renew_soon()
            await self.answer_within(ends - time.monotonic())
            if not self.loaded:
                await asyncio.sleep(_LOOKS[0])
        self._keeping = asyncio.create_task(self._keep_fresh(), name=f"keys {self.source.kind}")

    async def take_copy(self) -> None:
        """Loads the fleet's copy, if there is one."""
        answer = await self._lease_fetch(0)
        if answer is not None:
            self._apply(answer)

    async def ask(self) -> None:
        """Renews the keys, if that is allowed now, and waits for that, at most ``WAIT_SECONDS``."""
        if not self.may_ask or self.waiting >= MOST_WAITING:
            return
        if self.renewing is not None and self._answered.is_set():
            # The source has answered, and the last renewal only has to inform the other processes.
            await asyncio.wait([self.renewing], timeout=WAIT_SECONDS)
        self.renew_soon(demanded=self.fresh)
        left = self._began + WAIT_SECONDS - time.monotonic()
        if left <= 0 or self._answered.is_set():
            return
        self.waiting += 1
        try:
            await self.answer_within(left)
        finally:
            self.waiting -= 1

    def renew_soon(self, demanded: bool = False) -> None:
        """Begins to renew the keys, unless that is under way or not allowed yet.

        Args:
            demanded: a call needs a key that is not among them, though they are still fresh.
        """
        if self.renewing is None and time.monotonic() >= self.next_ask:
            self._began = time.monotonic()
            self._answered.clear()
            self.renewing = asyncio.create_task(self._renew(demanded), name=f"renew {self.source.kind}")
            self.renewing.add_done_callback(self._renewed)

    def renew_if_due(self) -> None:
        """As ``renew_soon``, if the keys are near the end of their time to live, or a file may have changed."""
        if self.fetched is None or self.trouble or self.age >= self._period:
            self.renew_soon()

    async def aclose(self) -> None:
        """Stops what runs in the background."""
        tasks = [task for task in (self._keeping, self.renewing) if task is not None]
        self._keeping = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def answer_within(self, seconds: float) -> None:
        """Waits until the source has answered or failed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._answered.wait()

    def _has_answered(self) -> None:
        """The source has answered or failed: releases the calls that wait for it."""
        self.asked = time.monotonic()
        self._answered.set()

    async def _keep_fresh(self) -> None:
        while True:
            self.renew_if_due()
            if self.renewing is not None:
                await asyncio.wait([self.renewing])
            await asyncio.sleep(self._due())

    def _due(self) -> float:
        """Seconds until the keys should be renewed or asked for again, with jitter."""
        now = time.monotonic()
        wait, spread = self.next_ask - now, self._cooldown
        if self.fetched is not None and not self.trouble:
            wait, spread = max(wait, self.fetched + self._period - now), self._period
        return max(wait, 0.0) + random.uniform(0.01, 0.01 + 0.05 * spread)

    async def _renew(self, demanded: bool) -> None:
        answer = await self._lease_fetch(LEASE_SECONDS)
        if answer is not None and answer.verdict == "take":
            self._apply(answer)
            if self.fresh and not self.trouble:
                return
            # The fleet's copy is out of date too, so try to get the right to ask the source.
            answer = await self._lease_fetch(LEASE_SECONDS)
        if answer is not None and answer.verdict != "ask":
            self._apply(answer)
            if answer.verdict == "busy":
                await self._watch()
            self._has_answered()
            return
        self.next_ask = time.monotonic() + self._cooldown
        await self._load(rest=self._cooldown if demanded else self._cooldown * SHORT_REST)

    async def _lease_fetch(self, lease: float) -> FetchReply | None:
        """The store's reply about the fleet's copy; None: there is none, so this process fetches for itself."""
        if self._shared is None:
            return None
        copies, source = self._shared
        try:
            return await copies.lease_fetch(source, self._version, math.ceil(lease * 1000))
        except (ToolFailure, ServerError):
            return None

    async def _watch(self) -> None:
        """Waits until the process that is asking the source has shared what it got."""
        ends = time.monotonic() + LEASE_SECONDS
        for look in range(1_000):
            await asyncio.sleep(_LOOKS[min(look, len(_LOOKS) - 1)])
            answer = await self._lease_fetch(0)
            if answer is None or time.monotonic() > ends:
                return
            self._apply(answer)
            if answer.verdict != "busy":
                return

    def _apply(self, answer: FetchReply) -> None:
        """Takes over the fleet's copy of the keys and its knowledge of the source's state."""
        self._clock.set(answer.now)
        if answer.verdict == "take" and self._shared is not None:
            try:
                loaded = self._shared[1].read(answer.document)
            except SourceFailed as failed:
                self._note(failed.reason, failed.kind)
                self._version = answer.fetched
                return
            self._take(loaded, (answer.now - answer.fetched) / 1000, answer.fetched)
        # While another process is asking the source, its answer is worth waiting for.
        self.next_ask = time.monotonic() + answer.wait_ms / 1000 if answer.verdict == "wait" else 0.0
        self._note(answer.trouble, answer.kind or "network")

    async def _load(self, rest: float) -> None:
        """Asks the source; if it answers, it is not asked again for ``rest`` seconds."""
        began = time.monotonic()
        try:
            loaded = await self.source.load()
        except SourceFailed as failed:
            await self._failed(failed)
            return
        except Exception:
            _log.exception("a source of keys failed", source=self.source.label)
            await self._failed(SourceFailed("the keys could not be read, by a defect of the coordinator"))
            return
        KEY_FETCHES.labels(self.source.kind, "ok").inc()
        if loaded is None:
            self.fetched = time.monotonic()
        else:
            self._take(loaded, 0.0, self._version)
        self.next_ask = began + rest
        self._note("", "network")
        self._has_answered()
        if self._shared is not None and loaded is not None:
            copies, source = self._shared
            shared = await self._tell(partial(copies.keep, source, loaded, math.ceil(rest * 1000)))
            self._version = shared or self._version

    def _take(self, loaded: Loaded, age: float, version: int) -> None:
        if not self.keys.same_as(loaded.keys):
            self.keys = loaded.keys
        self.issuer = loaded.issuer
        self.fetched = time.monotonic() - max(age, 0.0)
        self._version = version
        for problem in loaded.keys.skipped:
            _log.debug("a key is unusable", source=self.source.label, problem=problem)

    async def _failed(self, failed: SourceFailed) -> None:
        KEY_FETCHES.labels(self.source.kind, "failed").inc()
        self._note(failed.reason, failed.kind)
        self._has_answered()
        if self._shared is not None:
            copies, source = self._shared
            await self._tell(partial(copies.fail, source, failed.reason, failed.kind, math.ceil(self._cooldown * 1000)))

    async def _tell(self, tell: Callable[[], Awaitable[int]]) -> int | None:
        """Shares the outcome with the other processes, which wait for it. Retries; sharing it twice does no harm.

        Returns:
            When that was, in Unix milliseconds; None: the store never answered.
        """
        for pause in _PAUSES:
            try:
                return await tell()
            except (ToolFailure, ServerError) as failure:
                _log.debug("keys could not be shared with the fleet", source=self.source.label, reason=str(failure))
                await asyncio.sleep(pause)
        return None

    def _note(self, trouble: str, kind: str) -> None:
        """Notes whether the source is failing, and logs when that changes."""
        if trouble and not self.trouble:
            _log.warning(
                "keys cannot be renewed",
                source=self.source.label,
                reason=trouble,
                age_seconds=round(self.age) if self.loaded else None,
            )
        elif self.trouble and not trouble:
            _log.info("keys can be renewed again", source=self.source.label, keys=len(self.keys))
        self.trouble, self.trouble_kind = trouble, kind

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self.renewing = None
        self._answered.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a defect in the renewal of keys", source=self.source.label, exc_info=error)
            self.next_ask = time.monotonic() + self._cooldown
