"""Some calls at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_PARALLEL = 8


async def side_by_side(act: Callable[[T], Awaitable[R]], values: Iterable[T]) -> list[R]:
    """The results for all values, in order. The first failure ends all, and is raised."""
    results: dict[int, R] = {}
    left = enumerate(values)

    async def work() -> None:
        for at, value in left:
            results[at] = await act(value)

    workers = [asyncio.create_task(work()) for _ in range(_PARALLEL)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[at] for at in range(len(results))]
