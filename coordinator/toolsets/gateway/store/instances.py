"""Instances of workflows in the store: start, read, advance, delete."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from coordinator.metrics.tracing import carried
from coordinator.settings import Settings
from coordinator.steps.runs import RunStore
from coordinator.steps.store import LIBRARY as STEPS
from coordinator.store import Library, Script, Store, keys
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.gateway.rules.bundle import Bundle, Packed, unpacked
from coordinator.toolsets.gateway.rules.results import KeptValue
from coordinator.toolsets.gateway.rules.task import Advance

LIBRARY = Library("coordinator.toolsets.gateway", uses=[STEPS])
_MOST_BUNDLES = 256

What = Literal["begun", "busy", "stale", "ended", "gone"]


class Approval(Struct, array_like=True, frozen=True):
    id: str
    queue: str
    distinct: bool
    """Whether the requester must not resolve it."""
    requester: str
    asked_at: int
    declined: str = ""
    """Those who were asked and gave no answer, as a JSON list; empty: nobody."""


class Instance(Struct, array_like=True, frozen=True):
    """An instance at one moment. Times are ms of the store's clock."""

    now: int
    status: str
    """``r`` running, ``e`` ended."""
    definition: str
    creator: str
    bundle: str
    state: str
    version: int
    started_at: int
    deadline: int
    """0: none."""
    nesting: int
    operation: str
    """The operation in progress; empty: none."""
    transition: str
    since: int
    outcome: str
    context: str
    input: str
    evidence: str
    failure: str
    failed_at: int
    last_evidence: list[str]
    approvals: list[Approval]
    ending: str
    """The ending of the requested operation; empty: it is in progress, or ended long ago."""
    session_ms: int
    kept: str = "[]"
    """Values that are kept whole, as the JSON of ``KeptValue``."""
    owner: str = ""
    """Whose states of servers it uses, if not its own."""

    @property
    def ended(self) -> bool:
        return self.status == "e"

    @property
    def late(self) -> bool:
        """Whether its deadline has passed but its timeout was not carried out yet."""
        return not self.ended and 0 < self.deadline <= self.now


class NewInstance(Struct, frozen=True, kw_only=True):
    id: str
    definition: str
    creator: str
    bundle: Packed
    input: str
    timeout_ms: int = 0
    parent: str = ""
    """The instance and the operation that wait for its result."""
    nesting: int = 0
    session_ms: int = 0
    """For a session with a capability: how long it is kept after its last call."""
    transition: str = ""
    owner: str = ""
    """Whose states of servers it uses, if not its own."""


class BegunTransition(Struct, array_like=True, frozen=True):
    """The result of an attempt to begin a transition."""

    what: What
    operation: str
    to_relay: bool
    """Whether the relay has work."""


class _Started(NamedTuple):
    """What became of an instance that was to be started."""

    id: str
    """Empty: the bundle has to be sent along."""
    operation: str
    """Empty: the instance existed already."""
    to_relay: bool
    """Whether the relay has work."""


_START = Script(LIBRARY, "start_instance", _Started)
_BEGIN = Script(LIBRARY, "begin_transition", BegunTransition)
_READ: Script[Any] = Script(LIBRARY, "read_instance")
_EXPIRE = Script(LIBRARY, "expire_instance", tuple[bool, bool])
_STOP = Script(LIBRARY, "stop_operation", tuple[Literal["over", "stopped", "moved"], bool])
_DECLINE: Script[Any] = Script(LIBRARY, "decline_approvals")
_FORGET = Script(LIBRARY, "forget_instances", tuple[int, bool])
REPORT: Script[Any] = Script(LIBRARY, "report_hops")
"""The script with which workers report outcomes of instances' steps."""

_pack = msgspec.msgpack.Encoder().encode
_instance = msgspec.msgpack.Decoder(Instance).decode


class InstanceStore(RunStore):
    """The instances of any project. The ending of an operation is kept as long as the record of a request."""

    def __init__(self, store: Store, settings: Settings) -> None:
        super().__init__(store, settings)
        self._events_max = settings.events_max
        self._bundles: dict[str, Bundle] = {}

    async def start(
        self, project: str, request: IdempotencyKey, waiter: str, new: NewInstance, advance: Advance
    ) -> tuple[str, str]:
        """Stores an instance and begins its first operation.

        Args:
            waiter: the process to notify when the operation is over; empty: none.

        Returns:
            The ids of the instance and of the operation. If the request id was used before, those of that call.
          If the instance exists already, the operation is empty.
        """
        await self._note(project, request)
        # None is absent in the script.
        instance = _pack(
            {
                "id": new.id,
                "definition": new.definition,
                "creator": new.creator,
                "bundle": new.bundle.hash,
                "timeout_ms": new.timeout_ms or None,
                "parent": new.parent or None,
                "nesting": new.nesting or None,
                "session_ms": new.session_ms or None,
                "owner": new.owner or None,
                "pool": self._pools.get(project) or None,
                "retention_ms": self.retention_ms,
                "transition": new.transition,
                "trace": carried(),
            }
        )
        packed = _pack(advance)

        async def send(text: bytes) -> _Started:
            return await self._change(_START, project, request, waiter, instance, text, new.input, packed)

        started = await send(b"")
        if not started.id:
            # The store does not have these definitions, so their text is sent along.
            started = await send(new.bundle.text)
        self._bundles.setdefault(new.bundle.hash, new.bundle.bundle)
        await self._wake_relay(project, started.to_relay)
        return started.id, started.operation

    async def begin(
        self, project: str, request: IdempotencyKey, waiter: str, workflow: str, transition: str, advance: Advance
    ) -> BegunTransition:
        """Begins a transition, if the instance still has the version from which the advance was planned."""
        await self._note(project, request)
        begun = await self._change(
            _BEGIN, project, request, waiter, workflow, self.retention_ms, transition, carried(), _pack(advance)
        )
        await self._wake_relay(project, begun.to_relay)
        return begun

    async def read(self, project: str, workflow: str, operation: str = "", waiter: str = "") -> Instance | None:
        """Reads an instance; None if there is none, or if it was deleted.

        Args:
            operation: the operation whose ending is wanted; empty: none.
            waiter: the process to notify when the operation in progress is over.
        """
        reply = await self._store.run(_READ, project, workflow, operation, waiter)
        return None if len(reply) < 2 else _instance(reply)

    async def result(
        self, project: str, workflow: str, instance: Instance, kept: KeptValue, start: int, count: int
    ) -> bytes | None:
        """Some bytes of a value that is kept whole; None: it was replaced since the instance was read.

        Args:
            start: 0 is the beginning of its text.
        """
        key = keys.gate_result.key(project, f"{workflow}_{kept.place}")
        data: bytes = await self._store.command("GETRANGE", key, start, start + count - 1)
        now = await self._store.command("HGET", keys.gate_data.key(project, workflow), "r")
        return data if (now or b"[]").decode() == instance.kept else None

    async def expire(self, project: str, workflow: str, late: str, advance: Advance) -> bool:
        """Carries out the timeout of an instance. Returns False if that was done already.

        Args:
            late: the ending of the operation in progress.
        """
        moved, to_relay = await self._store.run(
            _EXPIRE,
            project,
            self.keep_ms,
            self._handoff.packed(project),
            workflow,
            self.retention_ms,
            late,
            _pack(advance),
        )
        await self._wake_relay(project, to_relay)
        return moved

    async def stop(self, project: str, workflow: str, operation: str, advance: Advance) -> bool:
        """Stops an operation. Returns False if the instance has moved on meanwhile, so that the advance is outdated."""
        what, to_relay = await self._store.run(
            _STOP,
            project,
            self.keep_ms,
            self._handoff.packed(project),
            workflow,
            operation,
            self.retention_ms,
            _pack(advance),
        )
        await self._wake_relay(project, to_relay)
        return what != "moved"

    async def decline(self, project: str, workflow: str, version: int, principal: str) -> None:
        """Notes that a principal was asked for the open approvals of this version, and gave no answer."""
        await self._store.run(_DECLINE, project, self._events_max, workflow, version, principal)

    async def bundle(self, project: str, hash: str) -> Bundle | None:
        """The definitions with this hash, which an instance started with; None if the instance was deleted."""
        bundle = self._bundles.get(hash)
        if bundle is None:
            text = await self._store.command("GET", keys.gate_bundle.key(project, hash))
            if text is None:
                return None
            if len(self._bundles) >= _MOST_BUNDLES:
                self._bundles.clear()
            bundle = self._bundles[hash] = unpacked(text)
        return bundle

    def known(self, hash: str) -> Bundle | None:
        """The definitions with this hash, if this process has read them."""
        return self._bundles.get(hash)

    async def forget(self, project: str, batch: int) -> tuple[int, bool]:
        """Deletes at most ``batch`` instances whose retention has expired.

        Returns:
          How many were deleted, and whether any remain, due now or later.
        """
        return await self._store.run(_FORGET, project, self._handoff.packed(project), batch)
