"""The functions that a job may name. Arguments and results are JSON.

The job of a step names ``run``. A worker of the fleet never calls it, because its engine follows
the pointer. A stock RQ worker does call it, and so can replace a worker of the fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def noop(*pointer: str) -> list[str]:
    """Returns its arguments. It tests that jobs reach a worker and return."""
    return list(pointer)


def run(project: str, run: str, step: str, attempt: int, *_: Any) -> str:
    """Executes one attempt of a step and reports its outcome to the store. Successors are queued for any worker.

    Returns:
        The outcome of the attempt: ``ok``, ``failed``, ``retry``, ``returned`` or ``lost``. ``stale``: the pointer
        leads to nothing.
    """
    # Imported here, because this module is also imported just to look up its functions.
    from coordinator.steps.model import job_id
    from workers.rq.single import run_one

    return asyncio.run(run_one(project, job_id(project, run, step, attempt)))


STEPS: dict[str, Callable[..., Any]] = {f"{step.__module__}.{step.__name__}": step for step in (noop, run)}
"""Functions by the name that a job gives."""
