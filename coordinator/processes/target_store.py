"""Opens the store that a project is copied to."""

from __future__ import annotations

import os
from dataclasses import replace

# All of the product's functions are loaded into both stores, so that no process is the first to load any meanwhile.
import workers.tools.demo  # noqa: F401
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import store_failed
from coordinator.projects.passing import PassingStore
from coordinator.store import AccessRefused, KeySpaceDiffers, StoreChanged, StoreError
from coordinator.store.checks import key_space
from coordinator.store.link.address import parse

PASSWORD = "FLEET_TO_PASSWORD"  # noqa: S105 (a name)
"""The variable of the environment with the target's password."""


async def open_target(to: str, timeout_ms: int) -> PassingStore:
    """Opens the other store, and gives it an identity if it is empty.

    Args:
        to: its URL, as ``--to`` has it.

    Raises:
        ProcessProblem: it cannot be used.
    """
    try:
        address = parse(to)
        password = os.environ.get(PASSWORD)
        if password and not address.password:
            address = replace(address, password=password)
        store = PassingStore(address.url(), timeout_ms)
        await store.open()
    except StoreError as error:
        if isinstance(error, AccessRefused):
            error.setting = f"--to and {PASSWORD}"
        failed = store_failed(error)
        raise ProcessProblem(f"--to: {failed}", failed.kind) from None
    try:
        await key_space.settle(store)
        if store.unready:
            raise ProcessProblem("--to: the store takes no writes", "store_unreachable")
    except (KeySpaceDiffers, StoreChanged) as error:
        await store.close()
        raise ProcessProblem(f"--to: {error}") from None
    except BaseException:
        await store.close()
        raise
    return store
