"""Checks of callers' values in threads, so that a slow pattern of a schema holds up no other call.

What such a check may take is bounded (``rules/schemas/validator.py``), but an event loop must not stand still for so
long. Matching releases the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")

SHORT = 24
"""Bytes of JSON that no pattern takes long with: a thread would cost more."""
_THREADS = 2
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway-schemas")


async def apart(value: object, check: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What a pure function returns that checks a caller's value; raises what it raises.

    Args:
        value: what it checks.
    """
    if len(msgspec.json.encode(value)) <= SHORT:
        return check(*args, **more)
    return await asyncio.get_running_loop().run_in_executor(_pool, partial(check, *args, **more))
