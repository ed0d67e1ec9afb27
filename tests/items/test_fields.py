"""The table of fields: it has all that the contract, the format of dumps, plans and scripts name."""

from __future__ import annotations

from pathlib import Path

import pytest

import coordinator.toolsets.items
from coordinator.client.plan import FIELDS as IN_PLANS
from coordinator.interchange import native
from coordinator.toolsets.items.contract.items import ItemSpec
from coordinator.toolsets.items.contract.query import FullItem
from coordinator.toolsets.items.contract.trees import TreeItem
from coordinator.toolsets.items.fields import FIELDS, LETTERED, NAMED

ROOM = Path(coordinator.toolsets.items.__file__).parent
ATTRIBUTES = {field.attribute for field in FIELDS}
OF_PLACE = {"id", "depth", "previous_role", "created_at", "modified_at", "role_changed_at", "ancestors"}
"""What the state and the place of an item show."""


def test_each_name_and_letter_is_one_field() -> None:
    assert len(NAMED) == len(LETTERED) == len(FIELDS)


@pytest.mark.parametrize("struct", [ItemSpec, TreeItem])
def test_all_that_callers_give_is_in_the_table(struct: type[ItemSpec | TreeItem]) -> None:
    assert set(struct.__struct_fields__) - {"id"} <= ATTRIBUTES


def test_all_that_results_show_is_in_the_table() -> None:
    computed = {"abandoned", "attempts", "overdue", "transitions"}
    assert set(FullItem.__struct_fields__) - OF_PLACE - computed <= ATTRIBUTES


def test_a_dump_has_all_that_callers_give() -> None:
    assert set(ItemSpec.__struct_fields__) <= set(native.Item.__struct_fields__)


def test_plans_have_all_that_callers_give() -> None:
    given = {field.name for field in FIELDS if field.attribute in ItemSpec.__struct_fields__}
    assert set(IN_PLANS) == given - {"role", "parentId"}


def test_what_is_special_to_a_field_is_in_the_file_that_it_names() -> None:
    assert [field.code for field in FIELDS if field.code and len(list(ROOM.rglob(field.code))) != 1] == []
