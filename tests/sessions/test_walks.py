"""Whole sessions over every set of definitions, without a single warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.definitions import Definitions, shipped
from coordinator.store import Store
from tests.sessions.client import Sessions
from tests.sessions.walk import Turns, Walk
from tests.support.workflows import roots

pytestmark = pytest.mark.anyio

EXPECTED = {
    ("change", "1.0.0"): (6, 7, True),
    ("hotfix", "1.0.0"): (4, 2, True),
    ("meta", "1.0.0"): (1, 1, True),
    # Of sets that TEST_WORKFLOWS may name.
    ("work-package", "3.7.0"): (14, 40, True),
    ("remediate-vuln", "1.0.1"): (14, 31, True),
    ("work-packages", "3.0.0"): (7, None, None),
    ("meta", "4.0.0"): (5, None, True),
    ("prism-update", "1.1.0"): (7, None, None),
    ("prism-evaluate", "1.1.0"): (7, None, None),
}
"""Workflow and version: activities, checkpoints, whether it can be completed; None: not checked."""


@pytest.mark.parametrize("root", roots(), ids=lambda root: root.name)
async def test_every_workflow_can_be_walked(store: Store, project: str, root: Path) -> None:
    definitions = Definitions([root], 0)
    turns = Turns([Sessions(store, project, definitions).attempt for _ in range(2)])
    for name, workflow in definitions.current.workflows.items():
        walk = await Walk(turns, name).run()
        assert walk.warnings == [], name
        expected = EXPECTED.get((name, workflow.version))
        if expected is not None:
            found = (len(walk.activities), walk.checkpoints, walk.completed)
            assert found == tuple(
                had if wanted is None else wanted for had, wanted in zip(found, expected, strict=True)
            ), (name, found)


@pytest.mark.every_store
async def test_a_session_on_every_server(store: Store, project: str) -> None:
    walk = await Walk(Sessions(store, project, Definitions([shipped()], 0)).attempt, "change").run()
    assert (walk.warnings, walk.completed) == ([], True)
