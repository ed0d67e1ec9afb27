"""A cluster of three primaries with a replica each, and a project on each shard."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.store.embedded.cluster import EmbeddedCluster
from tests.support.cluster import leads, project_on

SHARDS = 3
NODE_TIMEOUT_MS = 2000
"""Long enough for a busy machine to answer in, and over 1.6 times the timeout of calls."""


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the product only: each test has processes to wait for."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with EmbeddedCluster(directory, SHARDS, 1, "everysec", node_timeout_ms=NODE_TIMEOUT_MS) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: EmbeddedCluster) -> EmbeddedCluster:
    """The cluster with all of its nodes."""
    running.start()
    return running


@pytest.fixture
def projects(cluster: EmbeddedCluster) -> list[str]:
    """New projects, one on each shard."""
    test = uuid.uuid4().hex[:8]
    return [project_on(cluster, node, test) for node in cluster.nodes if leads(node)]
