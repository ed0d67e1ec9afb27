"""The table of fields: it has all that the contract, the format of dumps, plans and scripts name."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import coordinator.toolsets.items
from coordinator.client.plans.fields import MARKS, PLAN_FIELDS
from coordinator.projects import native
from coordinator.projects.dumping import dump
from coordinator.projects.restoring import restore
from coordinator.settings import Settings
from coordinator.toolsets.items.audit.run import audit
from coordinator.toolsets.items.contract.query import FoundItem, FullItem
from coordinator.toolsets.items.contract.specs import ItemSpec, TreeItem
from coordinator.toolsets.items.fields import FIELDS, LETTERED, NAMED
from tests.items.client import Client, Json

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
    assert set(ItemSpec.__struct_fields__) <= set(native.ITEM.__struct_fields__)


def test_plans_have_all_that_callers_give() -> None:
    given = {field.name for field in FIELDS if field.attribute in ItemSpec.__struct_fields__}
    assert set(PLAN_FIELDS) == given - {"role", "parentId"}


def test_marks_of_tasks_have_the_names_of_options() -> None:
    flagged = {mark: NAMED[name].options for mark, name in MARKS.items() if NAMED[name].flag}
    assert [mark for mark, options in flagged.items() if f"--{mark.replace(' ', '-')}" not in options] == []


def test_boxes_of_forms_ask_for_what_callers_give() -> None:
    assert {field.attribute for field in FIELDS if field.box or field.flag} <= set(ItemSpec.__struct_fields__)


def test_what_is_special_to_a_field_is_in_the_file_that_it_names() -> None:
    assert [field.code for field in FIELDS if field.code and len(list(ROOM.rglob(field.code))) != 1] == []


GIVEN: Json = {
    "title": "Title",
    "statusLabel": "waits",
    "priority": "high",
    "tags": "a,b",
    "type": "task",
    "container": True,
    "summary": "Summary",
    "description": "Description",
    "complexity": 3,
    "metadata": "text",
    "properties": '{"a":1}',
    "requiresVerification": True,
    "requires": ["gpu", "os"],
    "assignee": 'ann, "b"/1',
    "resources": [{"key": "site", "mode": "exclusive", "units": 1}],
    "budget": {"tokens": 1000},
    "maxAttempts": 0,
    "retryBackoffSeconds": 5,
    "notBefore": "2090-01-01T00:00:00.000Z",
    "dueAt": "2090-01-02T00:00:00.000Z",
}
"""A value of each field that results show as it was given."""


def test_each_field_has_a_value_here() -> None:
    given = {field.name for field in FIELDS if field.attribute in ItemSpec.__struct_fields__}
    assert given == {*GIVEN, "role", "parentId", "traits", "recurs"}


@pytest.mark.anyio
async def test_each_field_is_shown_and_written_out_and_restored_as_given(tools: Client) -> None:
    item = await tools.add(**GIVEN)
    full = await tools("query_items", operation="get", id=item)
    assert {name: full.get(name) for name in GIVEN} == GIVEN
    (found,) = (await tools("query_items", operation="search", includeDetails=True))["items"]
    shown = {field.name for field in FIELDS if field.attribute in FoundItem.__struct_fields__ and field.name in GIVEN}
    assert {name: found.get(name) for name in shown} == {name: GIVEN[name] for name in shown}

    lines = [line async for line in dump(tools.store, tools.project)]
    data = io.BytesIO(b"\n".join(map(native.encode, native.ended(lines))) + b"\n")
    await tools("manage_items", operation="delete", ids=[item])
    await restore(tools.store, Settings(), tools.project, data, lambda said: None)
    assert await tools("query_items", operation="get", id=item) == full
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.anyio
async def test_each_field_can_be_cleared(tools: Client) -> None:
    bare = await tools.add(title="Title", priority="high", summary="Summary")
    item = await tools.add(**GIVEN)
    cleared = {name: None for name in GIVEN if name != "requiresVerification"} | {"requiresVerification": False}
    await tools("manage_items", operation="update", items=[{"id": item, **cleared}])
    names = set(GIVEN) | {"abandoned", "role"}
    one, other = [await tools("query_items", operation="get", id=each) for each in (item, bare)]
    assert {name: one.get(name) for name in names} == {name: other.get(name) for name in names}
    assert (await audit(tools.store, tools.project)).differences == []
