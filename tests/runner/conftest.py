"""A fleet for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.runner.template import template
from tests.support.served import fleet, named, running

__all__ = ["fleet", "named", "running"]


@pytest.fixture(scope="session", autouse=True)
def no_template_left() -> Iterator[None]:
    yield
    template.close()
