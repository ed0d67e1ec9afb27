"""Which variables of a walk can be set."""

from __future__ import annotations

import pytest

from coordinator.definitions import Variable
from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules import variables
from tests.navigator.workflows import Make, question, write
from tests.support.workflows import Tree

DECLARED = (
    Variable(name="text", type="string"),
    Variable(name="list", type="array"),
    Variable(name="map", type="object"),
)


@pytest.mark.parametrize("name", ["text.x", "list.0", "list.0.x"])
def test_parts_of_declared_non_objects_cannot_be_set(name: str) -> None:
    parts = {"map.list.0": 1, "free.x": 1, "textual.x": 1}
    variables.check(parts, DECLARED, "variables")
    with pytest.raises(ToolFailure, match=f"variables.{name}: cannot be set: '{name[:4]}' must be a"):
        variables.check(parts | {name: 1}, DECLARED, "variables")


def test_setting_a_part_replaces_a_non_object_by_an_object() -> None:
    held = {"free": 5, "map": {"kept": 1}}
    variables.assign(held, "free.x.y", 2)
    variables.assign(held, "map.x", 3)
    assert held == {"free": {"x": {"y": 2}}, "map": {"kept": 1, "x": 3}}


@pytest.mark.anyio
async def test_setting_a_part_does_not_change_the_definition(tree: Tree, client: Make) -> None:
    effect = {"setVariable": {"plan": {"size": 1}, "plan.size": 2}}
    write(tree, {"id": "a", "checkpoints": [question("c", {"id": "o", "label": "O", "effect": effect})]},
          variables=[{"name": "map", "type": "object", "defaultValue": {"in": {"k": 1}}}])  # fmt: skip
    nav = client()
    now = await nav.start("w", **{"map.in.k": 2, "map.more": 3})
    assert nav.state(now).variables == {"map": {"in": {"k": 2}, "more": 3}}
    now = await nav.must(now, "respond_to_checkpoint", checkpoint_id="c", option_id="o")
    state = nav.state(now)
    assert state.variables["plan"] == {"size": 2}
    assert nav.state(await nav.start("w")).variables == {"map": {"in": {"k": 1}}}
    shown = await nav("get_checkpoint", workflow_id="w", activity_id="a", checkpoint_id="c")
    assert shown["options"][0]["effect"] == effect
