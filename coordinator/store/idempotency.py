"""Idempotency: the keys of calls with a request id, and the recorded replies that scripts keep under these keys."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import ScriptFailure
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

R = TypeVar("R")
_encode = msgspec.json.Encoder(order="deterministic").encode
_DONE = b"D"
_HANDED_OVER = b"H"
_FINISH: Script[Any] = Script(STORE, "finish_reply")


class IdempotencyKey(msgspec.Struct, gc=False):
    """Identifies a call: the first two arguments of every script that changes something (``requests.lua``)."""

    key: str
    """The name of the record in the project; empty: the call has no request id and no record."""
    fingerprint: str
    """16 hex digits over the tool and its arguments, without proofs."""
    replayed: bool = False
    """Whether the call was a replay: answered with the recorded reply, without an effect of its own."""
    counted: bool = False
    """Whether metrics have counted it: a call may take several scripts."""

    def slice(self, number: int) -> IdempotencyKey:
        """The key of one slice of a call that is executed in several slices."""
        return IdempotencyKey(f"{self.key}.{number}", self.fingerprint, counted=True) if self.key and number else self


NO_KEY = IdempotencyKey("", "")
"""A call without a request id."""


def idempotency_key(actor: str, request_id: str, tool: str, *arguments: Any) -> IdempotencyKey:
    """The key of one call, by the trusted actor and the request id.

    Args:
        arguments: what a repeated call must repeat, in builtin types; members of objects have no order.
    """
    key = blake2b(f"{actor}\0{request_id.lower()}".encode(), digest_size=16).hexdigest()
    return IdempotencyKey(key, blake2b(_encode((tool, arguments)), digest_size=8).hexdigest())


async def run_once(
    store: Store, script: Script[R], project: str, request: IdempotencyKey, keep_ms: int | str, *args: str | bytes | int
) -> R:
    """Runs a script whose first arguments are key, fingerprint and the record's time to live.

    Args:
        keep_ms: how long the record is kept, in ms.
        args: the script's further arguments.

    Raises:
        ToolFailure: ``request_id_reused``, and as ``Store.run`` says.
        ScriptFailure: any other error of the script.
    """
    try:
        return await store.run(script, project, request.key, request.fingerprint, keep_ms, *args, asked=request)
    except ScriptFailure as failure:
        if failure.code != "REQUEST_ID_REUSED":
            raise
    except ToolFailure as failure:
        # A full store refuses the script before it can look for the record.
        record = await _record(store, project, request) if failure.code == "store_full" else None
        if record is None or script.decode is None:
            raise
        if record[:1] == _HANDED_OVER and await store.run(_FINISH, project, request.key):
            record = _DONE + record[1:]
        if record[:1] != _DONE:
            raise
        request.replayed = True
        return script.decode(record[1:])
    raise _reused()


async def recorded_reply(store: Store, project: str, request: IdempotencyKey) -> bytes | None:
    """The packed reply recorded for a call; None: there is no record (any more), or the call has no request id.

    Raises:
        ToolFailure: ``request_id_reused``, and as ``Store.command`` says.
    """
    record = await _record(store, project, request)
    return None if record is None else record[1:]


async def _record(store: Store, project: str, request: IdempotencyKey) -> bytes | None:
    """The record without its fingerprint: the letter of its state, then the reply."""
    if not request.key:
        return None
    record: bytes | None = await store.command("GET", keys.request.key(project, request.key))
    if record is None:
        return None
    # The layout is that of requests.lua.
    if record[:16] != request.fingerprint.encode():
        raise _reused()
    return record[16:]


def _reused() -> ToolFailure:
    return ToolFailure("request_id_reused", "requestId: was used before by this actor with other arguments")
