"""Fixtures of the transport's tests: a rig, its fronts, and what they log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.transport import FrontEnd
from tests.authentication.support import KEYS
from tests.transport.guarded import ISSUER, Front
from tests.transport.nodejs import Node, installed
from tests.transport.rig import Rig, make_app


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return installed(tmp_path_factory.mktemp("home"))


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
async def app(rig: Rig) -> AsyncIterator[FrontEnd]:
    app = make_app(rig)
    yield app
    await app.stop()


@pytest.fixture
async def make_front(tmp_path: Path, rig: Rig) -> AsyncIterator[Callable[..., Front]]:
    made: list[Front] = []

    def make(**auth: Any) -> Front:
        made.append(Front(tmp_path, rig, **auth))
        return made[-1]

    yield make
    for front in made:
        await front.close()


@pytest.fixture
def front(make_front: Callable[..., Front]) -> Front:
    return make_front(verifier=KEYS, authorization_servers=(ISSUER,))
