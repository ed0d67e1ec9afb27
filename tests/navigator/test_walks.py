"""Whole walks through every workflow that there is, in process."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.definitions import Definitions
from coordinator.store import Store
from tests.navigator.client import Client
from tests.navigator.walker import WALKS, first, onward, walk
from tests.support.workflows import roots

pytestmark = pytest.mark.anyio

STARTS = [
    (root, name)
    for root in roots()
    for name, workflow in Definitions([root], poll_seconds=0, quiet=True).current.workflows.items()
    if workflow.initial_activity
]


@pytest.mark.parametrize(("root", "name"), STARTS, ids=[f"{root.name}-{name}" for root, name in STARTS])
async def test_every_workflow_can_be_walked(store: Store, project: str, root: Path, name: str) -> None:
    definitions = Definitions([root], poll_seconds=0)
    workflow = definitions.current.workflows[name]
    activities, actions, variables = WALKS.get((name, workflow.version), (0, 0, {}))
    choose = first if name.startswith("work-package") else onward
    walked = await walk(Client(store, project, definitions), name, variables, choose)
    assert walked.actions > 0
    if activities:
        assert len(walked.activities) == activities, walked.activities
        assert walked.actions == actions
        assert walked.last["message"]
        assert walked.last["availableActions"]["required"] == []
