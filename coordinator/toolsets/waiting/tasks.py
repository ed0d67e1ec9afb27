"""Waiting reads (``reads.py``) as tasks: whether the wait is over is read when the client asks for it.

So a task holds no connection and no process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from coordinator.toolsets import deferral
from coordinator.toolsets.deferral import DAY_MS, Pending, lasts_ms
from coordinator.toolsets.tool import Call, Deferral, Reply, Tool
from coordinator.toolsets.waiting.reads import Waited, wait_ms, waits


def waiting_read(tool: Tool, about: Callable[[Any], str] = lambda _: "") -> Tool:
    """The tool, which may wait, and whose waits become tasks of clients that ask later for results.

    Args:
        about: takes arguments of the tool; as ``Deferral.about``.
    """
    wait = msgspec.defstruct("Wait", [("arguments", tool.arguments)], array_like=True, frozen=True)

    async def begin(call: Call, args: Any) -> Any:
        grace_ms = int(deferral.GRACE_SECONDS * 1000)
        by_number = str(args.after or "").isdecimal()  # of workflow_get: which steps to show
        if not call.can_defer or (args.wait_ms or 0) <= grace_ms or (args.wait_for == "changed" and by_number):
            return await tool.handler(call, args)
        result = await tool.handler(call, msgspec.structs.replace(args, wait_ms=grace_ms))
        waited = _waited(result)
        if waited is None or waited.met:
            return result
        if args.wait_for == "changed" and args.after is None:
            # Since the call, not since it is asked for.
            args = msgspec.structs.replace(args, after=waited.after)
        return _pending(wait(args), result)

    async def read(call: Call, state: Any) -> Any:
        args = state.arguments
        result = await tool.handler(call, msgspec.structs.replace(args, wait_ms=0))
        waited = _waited(result)
        if waited is None:
            return result
        return result if waited.met or waited.ms >= lasts_ms(args.wait_ms) else _pending(state, result)

    found = Deferral(wait, read, about=lambda state: about(state.arguments))
    return replace(
        tool, handler=begin, deferral=found, waits=waits, wait_ms=wait_ms, parks=True, only_looks=True, read_only=True
    )


def _waited(result: Any) -> Waited | None:
    """How the wait of a result ended; None: it is a refusal or a question."""
    found = getattr(result.structured if isinstance(result, Reply) else result, "waited", None)
    return found if isinstance(found, Waited) else None


def _pending(wait: Any, otherwise: Any) -> Pending:
    message = f"waits for {wait.arguments.wait_for}"
    return Pending(state=wait, ttl_ms=DAY_MS, message=message, otherwise=otherwise)
