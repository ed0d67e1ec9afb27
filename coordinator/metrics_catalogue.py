"""Every metric that the product exports, collected from the packages that declare them.

Each is declared in the module ``metrics`` of the package that records it. Ids of items, requests or agents are never
labels.
"""

# ruff: noqa: F401 - imported for what they declare

from __future__ import annotations

from typing import Any

import coordinator.console.metrics
import coordinator.feed.metrics
import coordinator.identity.metrics
import coordinator.metrics.process
import coordinator.overload.metrics
import coordinator.processes.metrics
import coordinator.runner.metrics
import coordinator.steps.metrics
import coordinator.store.metrics
import coordinator.toolsets.gateway.metrics
import coordinator.toolsets.items.metrics.claims
import coordinator.toolsets.items.metrics.levels
import coordinator.toolsets.items.metrics.resources
import coordinator.toolsets.items.metrics.usage
import coordinator.toolsets.metrics
import coordinator.toolsets.sessions.metrics
import coordinator.transport.metrics
import coordinator.webhooks.metrics
import workers.metrics
from coordinator.metrics import Metric
from coordinator.metrics.recording import declared

CATALOGUE: tuple[Metric[Any], ...] = tuple(sorted(declared(), key=lambda metric: metric.name))
"""By name."""
