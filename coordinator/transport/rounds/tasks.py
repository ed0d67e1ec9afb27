"""Tasks: calls whose results clients ask for later (the extension ``io.modelcontextprotocol/tasks`` of 2026-07-28).

The id of a task is what the call is about, sealed: no process keeps anything for it, and each can read it, also after
all of them were restarted. It is good for the project that it was made for, and for callers with the credential of the
one that it was made for, with no more rights than that caller had then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.identity.callers.rights import Rights
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.deferral import LONGEST_STATE, Pending, fits, poll_ms
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Call, Tool
from coordinator.transport.metrics import TASK_EVENTS
from coordinator.transport.rounds.sealing import Seals

_PURPOSE = "task"
_LONGEST_CALLER = LONGEST_STATE // 2
"""Bytes."""


class Task(msgspec.Struct, array_like=True, frozen=True):
    """What is sealed in the id of a task."""

    audience: str
    project: str
    caller: Caller | None
    """Who began it, with the rights of then."""
    tool: str
    """Its name in its toolset."""
    created: int
    """In ms, by the clock of Redis."""
    ttl_ms: int
    state: msgspec.Raw
    """A ``Deferral.state``."""

    def shown(self, id: str, now: int, status: str, message: str = "", poll: int = 0) -> dict[str, Any]:
        """The members that all forms of a task have.

        Args:
            poll: when to ask again, in ms; 0: as its age suggests.
        """
        facts: dict[str, Any] = {
            "taskId": id,
            "status": status,
            "createdAt": iso(self.created),
            "lastUpdatedAt": iso(now),
            "ttlMs": self.ttl_ms,
            "pollIntervalMs": poll or poll_ms(now - self.created),
        }
        return {**facts, "statusMessage": message} if message else facts


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode


class Tasks:
    def __init__(self, seals: Seals, rights: Rights) -> None:
        self._seals = seals
        self._rights = rights
        self.now = seals.now
        """The time of Redis in ms; raises ToolFailure."""

    async def create(self, tool: Tool, call: Call, pending: Pending) -> dict[str, Any] | None:
        """The result of a call that becomes a task; None: what it is about is too long for an id.

        Raises:
            ToolFailure: the store does not answer.
        """
        caller = call.caller
        if caller is not None:
            caller = msgspec.structs.replace(caller, sees=None, taken=frozenset[str]())
        if not fits(pending.state) or len(_encode(caller)) > _LONGEST_CALLER:
            return None
        state = _encode(pending.state)
        now = await self.now()
        task = Task(self._seals.audience, call.project, caller, tool.name, now, pending.ttl_ms, msgspec.Raw(state))
        sealed = await self._seals.seal(_PURPOSE, _encode(task), call.project)
        TASK_EVENTS.labels(tool.name, "created").inc()
        return {"resultType": "task", **task.shown(sealed, now, "working", pending.message)}

    async def find(self, id: str, project: str, caller: Caller | None) -> Task | None:
        """The task with this id; None: there is none, or it is not one of this caller's credential and project.

        Raises:
            ToolFailure: the store does not answer.
        """
        packed = await self._seals.open(_PURPOSE, id, project)
        try:
            task = _decode(packed) if packed is not None else None
        except msgspec.MsgspecError:
            return None  # of a release that seals something else
        if task is None or (task.audience, task.project) != (self._seals.audience, project):
            return None
        return task if self._rights.same(task.caller, caller) else None
