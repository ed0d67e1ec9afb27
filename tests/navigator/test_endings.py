"""From every state that a walk can reach, its agent can come to the end, or is asked what decides it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from coordinator.definitions import Definitions
from tests.navigator.graph import Graph
from tests.navigator.walker import of_root, starts
from tests.navigator.workflows import question, step, when, write
from tests.support.workflows import Tree

WHOLE = 20_000
"""States. All that a workflow has; of real ones, most that there are."""


def must_end(definitions: Definitions, name: str, most: int) -> Graph:
    """Fails if the end cannot be reached from one of up to ``most`` states, or any that comes after them."""
    graph = Graph(definitions.current, name)
    graph.explore(most, random.Random(0))
    for key, state in list(graph.states.items()):
        assert graph.can_end(key), state
    return graph


@pytest.mark.parametrize("most", [20, pytest.param(WHOLE, marks=[pytest.mark.chaos, pytest.mark.timeout(600)])])
@pytest.mark.parametrize(("root", "name"), starts(), ids=lambda one: getattr(one, "name", one))
def test_every_walk_ends_or_asks(root: Path, name: str, most: int) -> None:
    must_end(of_root(root), name, most)


def test_a_walk_ends_or_asks_after_any_number_of_reworks(tree: Tree) -> None:
    verdict = [{"id": name, "label": name, "effect": {"setVariable": {"approved": name == "pass"}}}
               for name in ("pass", "rework")]  # fmt: skip
    write(
        tree,
        {"id": "plan", "steps": [step("think")], "transitions": [{"to": "build", "isDefault": True}]},
        {"id": "build", "checkpoints": [question("style")], "transitions": [{"to": "check", "isDefault": True}]},
        {"id": "check", "steps": [step("run")], "transitions": [
            {"to": "review", "condition": when("passed")}, {"to": "build", "isDefault": True}]},
        {"id": "review", "checkpoints": [question("verdict", *verdict)], "transitions": [
            {"to": "hand-over", "condition": when("approved")}, {"to": "plan", "isDefault": True}]},
        {"id": "hand-over", "steps": [step("send")]},
    )  # fmt: skip
    graph = must_end(Definitions([tree.root], poll_seconds=0), "w", WHOLE)
    # It has come to the check after a rework, and after that has failed.
    found = {
        (one.current_activity, *one.ahead) for one in graph.states.values() if one.variables.get("passed") is False
    }
    assert ("check", "review") in found
