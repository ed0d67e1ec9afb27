"""Every metric that the product exports, collected from the packages that declare them.

Each is declared in the module ``metrics`` of the package that records it. Ids of items, requests or agents are never
labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from coordinator.metrics import (
    Metric,
    agents,
    attempts,
    catalogue,
    console,
    downstream,
    due_times,
    feed,
    fleet,
    gateway,
    identity,
    protocol,
    resources,
    runs,
    shards,
    states,
    usage,
    webhooks,
)
from coordinator.overload import metrics as overload

_MODULES = (
    catalogue,
    overload,
    agents,
    attempts,
    due_times,
    resources,
    usage,
    feed,
    console,
    webhooks,
    protocol,
    runs,
    shards,
    states,
    gateway,
    downstream,
    fleet,
    identity,
)


def _declared(module: ModuleType) -> Iterator[Metric[Any]]:
    return (value for value in vars(module).values() if isinstance(value, Metric))


CATALOGUE: tuple[Metric[Any], ...] = tuple(
    sorted({metric for module in _MODULES for metric in _declared(module)}, key=lambda metric: metric.name)
)
"""By name."""
