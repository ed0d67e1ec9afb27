"""What tests of imports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.store.address import parse
from coordinator.store.clients import client as redis_client


@pytest.fixture
def several_projects(project: str, redis_url: str) -> Iterator[None]:
    """Of a test that also uses projects whose names are that of its own and more: they are deleted."""
    yield
    with redis_client(parse(redis_url)) as client:
        for key in client.scan_iter(match=b"fc:{%s-*" % project.encode(), count=1_000):
            client.delete(key)
