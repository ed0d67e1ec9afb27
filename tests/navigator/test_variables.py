"""What may be set as variables of a walk."""

from __future__ import annotations

import pytest

from coordinator.definitions import Variable
from coordinator.errors import ToolFailure
from coordinator.toolsets.navigator.rules import variables

DECLARED = (
    Variable(name="text", type="string"),
    Variable(name="list", type="array"),
    Variable(name="map", type="object"),
)


@pytest.mark.parametrize("name", ["text.x", "list.0", "list.0.x"])
def test_no_part_is_set_of_what_is_declared_as_no_object(name: str) -> None:
    parts = {"map.list.0": 1, "free.x": 1, "textual.x": 1}
    variables.check(parts, DECLARED, "variables")
    with pytest.raises(ToolFailure, match=f"variables.{name}: cannot be set: '{name[:4]}' must be a"):
        variables.check(parts | {name: 1}, DECLARED, "variables")


def test_a_part_of_what_holds_no_object_makes_one_of_it() -> None:
    held = {"free": 5, "map": {"kept": 1}}
    variables.assign(held, "free.x.y", 2)
    variables.assign(held, "map.x", 3)
    assert held == {"free": {"x": {"y": 2}}, "map": {"kept": 1, "x": 3}}
