"""The functions that a job may name. Arguments and results are JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def noop(*pointer: str) -> list[str]:
    """Does nothing and returns its arguments: shows that jobs reach a worker and come back."""
    return list(pointer)


STEPS: dict[str, Callable[..., Any]] = {f"{step.__module__}.{step.__name__}": step for step in (noop,)}
"""Name in the job -> function."""
