"""Redis: the connection, the scripts, the names of keys, and the embedded server.

All state of the product lives in Redis, and what callers change is changed by Lua scripts, one per
operation; hints and registers that the fleet keeps for itself are plain commands. A package keeps
its scripts in its ``lua`` directory, declares each as a ``Script`` and runs it with ``Store.run``;
whatever a script calls, it stays within one project, whose keys share a hash tag (``keys.py``).

What may be relied on:

* A call either returns, or raises within its timeout; nothing waits without bound.
* A call is sent once. Where its outcome cannot be known, the caller is told so
  (``store_unavailable``) and may repeat it with the same request id.
* A script that the server does not know is loaded and run without the caller noticing.

What this does not promise: that a call that failed as ``store_unavailable`` had no effect.
"""

from coordinator.store.errors import (
    AddressError,
    KeySpaceDiffers,
    ScriptError,
    ScriptFailure,
    ServerError,
    StoreError,
    StoreTooOld,
    StoreUnreachable,
)
from coordinator.store.scripts import Script
from coordinator.store.store import Store

__all__ = [
    "AddressError",
    "KeySpaceDiffers",
    "Script",
    "ScriptError",
    "ScriptFailure",
    "ServerError",
    "Store",
    "StoreError",
    "StoreTooOld",
    "StoreUnreachable",
]
