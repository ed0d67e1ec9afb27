"""The functions that a job may name. Arguments and results are JSON.

``run`` is what the job of a step names. A worker of the fleet never calls it: its engine goes by
the pointer. A stock RQ worker does, and so can stand in for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def noop(*pointer: str) -> list[str]:
    """Does nothing and returns its arguments: shows that jobs reach a worker and come back."""
    return list(pointer)


def run(project: str, run: str, step: str, attempt: int, *_: Any) -> str:
    """Executes one attempt of a step and reports its outcome; what follows is queued for any worker.

    Returns:
        What became of it: ``ok``, ``failed``, ``retry``, ``returned``, ``lost`` or, for a pointer to
        nothing, ``stale``. The record of the outcome is the store's.
    """
    # Imported here, since this module is imported to look its functions up.
    from coordinator.steps.model import job_id
    from workers.single import run_one

    return asyncio.run(run_one(project, job_id(project, run, step, attempt)))


STEPS: dict[str, Callable[..., Any]] = {f"{step.__module__}.{step.__name__}": step for step in (noop, run)}
"""Name in the job -> function."""
