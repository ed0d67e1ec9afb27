"""Whole walks through every workflow, in process, by an agent that knows only the answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.store import Store
from tests.navigator.client import Client, Json
from tests.navigator.walker import ITEMS, first, of_root, starts, walk

pytestmark = pytest.mark.anyio

STARTS = starts()
EVERY = pytest.mark.parametrize(("root", "name"), STARTS, ids=[f"{root.name}-{name}" for root, name in STARTS])
WHOLE = {
    ("change", "1.0.0"): 5,
    ("hotfix", "1.0.0"): 4,
    ("work-package", "2.1.0"): 12,
    ("work-packages", "2.1.0"): 7,
    ("work-package", "3.7.0"): 12,
    ("work-packages", "3.0.0"): 7,
    ("meta", "4.0.0"): 5,
}
"""Workflow and version -> how many activities a walk visits that always takes the first option."""
CHILDREN = {("work-packages", "2.1.0"), ("work-packages", "3.0.0"), ("prism-audit", "1.0.0")}
"""Those that run another workflow for each item of a loop."""
LARGEST = 900
"""Characters of a state, including waiting walks."""


@EVERY
async def test_a_walk_of_required_actions_completes(store: Store, project: str, root: Path, name: str) -> None:
    definitions = of_root(root)
    workflow = definitions.current.workflows[name]
    walked = await walk(Client(store, project, definitions), name)
    assert walked.last["position"]["workflow"] == name
    assert walked.last["availableActions"]["required"] == []
    assert walked.largest <= LARGEST
    here = [activity for owner, activity in walked.places if owner == name]
    if (name, workflow.version) in WHOLE:
        assert len(set(here)) == WHOLE[name, workflow.version], here
    if (name, workflow.version) in CHILDREN:
        starts = [before for before, after in zip(walked.places, walked.places[1:], strict=False)
                  if before[0] == name != after[0]]  # fmt: skip
        assert len(starts) == len(ITEMS)


@EVERY
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.chaos)])
async def test_a_walk_completes_for_any_choices(store: Store, project: str, root: Path, name: str, seed: int) -> None:
    dice = random.Random(seed)

    def choose(options: Sequence[Json]) -> Json:
        return dice.choice(options)

    walked = await walk(Client(store, project, of_root(root)), name, choose)
    assert walked.last["completed"]


async def test_the_answers_of_a_walk_are_small(store: Store, project: str) -> None:
    """Over the example, so that the sizes are the same everywhere."""
    walked = await walk(Client(store, project), "change", first)
    assert walked.largest <= 500
    assert walked.answers / walked.calls <= 1_100
