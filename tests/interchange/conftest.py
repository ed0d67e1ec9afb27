"""What tests of imports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from coordinator.store.address import parse


@pytest.fixture
def several_projects(project: str, redis_url: str) -> Iterator[None]:
    """Of a test that also uses projects whose names are that of its own and more: they are deleted."""
    yield
    with redis.Redis(**parse(redis_url).client_options()) as client:
        for key in client.scan_iter(match=b"fc:{%s-*" % project.encode(), count=1_000):
            client.delete(key)
