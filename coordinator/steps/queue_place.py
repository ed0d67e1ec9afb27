"""Which Redis has the queues of a fleet's steps, for commands that know its store, but not its settings.

Each Redis with queues of another fleet's store (``steps.queue_url``) has an id, and that store has it, too.
"""

from __future__ import annotations

import secrets

from coordinator.steps.handoff import RQ_PREFIX
from coordinator.store import Store, keys

_ID = f"{RQ_PREFIX}:id"
_IDENTITY = keys.identity.key(keys.FLEET)
_FIELD = "q"


async def note(store: Store, queue: Store) -> None:
    """Notes in a store where its queues are. Raises ToolFailure, ServerError as ``Store.command``."""
    if queue is store:
        await store.command("HDEL", _IDENTITY, _FIELD)
        return
    await queue.command_of(keys.QUEUE, "SET", _ID, secrets.token_hex(8), "NX")
    await store.command("HSET", _IDENTITY, _FIELD, await queue.command_of(keys.QUEUE, "GET", _ID))


async def queues_of(store: Store) -> bytes | None:
    """The id of the Redis that has a store's queues; None: no other fleet's are there. Raises as ``note``."""
    elsewhere: bytes | None = await store.command("HGET", _IDENTITY, _FIELD)
    return elsewhere or await store.command_of(keys.QUEUE, "GET", _ID)
