"""Redis: the connection, the scripts, the names of keys, and the embedded server.

All state of the product is in Redis. Callers change it only through operations in Lua; plain commands write nothing but
a few keys for the fleet's own use. A package keeps its operations and what they share in its ``lua`` directory:
together they are its ``Library``. It declares each operation as a ``Script`` and runs it with ``Store.run``. An
operation touches the keys of one project only, which share a hash tag (``keys.py``).

``link`` has the connections, ``cluster`` where calls go if the store has several shards, ``embedded`` the servers that
a fleet starts for itself, ``libraries`` how Lua files become function libraries, which ``functions`` loads. ``checks``
is done before a store is used. ``fences`` keep calls from projects that are being copied, ``projects`` lists all and
which need work, and through ``fleet`` processes know of each other.

Guaranteed:

* A call returns, or raises within its timeout.
* A call is sent once. If its outcome is unknown, it fails with ``store_unavailable``, and the caller may repeat it with
  the same request id.
* A script that the server does not know is loaded and run without the caller noticing.

Not guaranteed: that a call that failed with ``store_unavailable`` had no effect.
"""

from coordinator.store.checks.identity import StoreIdentity
from coordinator.store.errors import (
    AccessRefused,
    AddressError,
    CommandsDenied,
    KeySpaceDiffers,
    ScriptError,
    ScriptFailure,
    ServerError,
    StoreChanged,
    StoreError,
    StoreTooOld,
    StoreUnreachable,
)
from coordinator.store.libraries.build import Library
from coordinator.store.scripts import Script
from coordinator.store.store import Store

__all__ = [
    "AccessRefused",
    "AddressError",
    "CommandsDenied",
    "KeySpaceDiffers",
    "Library",
    "Script",
    "ScriptError",
    "ScriptFailure",
    "ServerError",
    "Store",
    "StoreChanged",
    "StoreError",
    "StoreIdentity",
    "StoreTooOld",
    "StoreUnreachable",
]
