"""A fleet for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.runner.supervision.template import template
from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.hall import Hall
from tests.runner.model import Model
from tests.support.fleets import RunningFleet
from tests.support.served import fleet, named, running
from tests.support.worker_calls import calls

__all__ = ["calls", "fleet", "named", "running"]


@pytest.fixture(scope="session", autouse=True)
def no_template_left() -> Iterator[None]:
    yield
    template.close()


@pytest.fixture
def model() -> Iterator[Model]:
    """A stand-in for the models of real agents."""
    with Model() as model:
        yield model


@pytest.fixture
def real_bench(tmp_path: Path, model: Model) -> Bench:
    """Runs real agents, with the stand-in."""
    bench = Bench(tmp_path)
    bench.place.environment |= real_agents.environment(tmp_path / "home", model)
    return bench


@pytest.fixture
def hall(running: RunningFleet, named: str, tmp_path: Path) -> Hall:
    return Hall(running, named, tmp_path)
