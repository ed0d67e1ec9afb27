"""Options for fields of items, by the table of fields: what they give, and how refusals name them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator import cli
from coordinator.cli import refusals
from coordinator.toolsets.items.fields import FIELDS, FILTERS, Field

TEXTS = {
    "parentId": "550e8400",
    "priority": "high",
    "resources": "gpu",
    "budget": "tokens=5",
    "notBefore": "+1h",
    "dueAt": "+1h",
}


def words_of(field: Field, option: str) -> list[str]:
    kind = field.flag.type if field.flag else str
    return [option] if kind is bool else [option, "3" if kind is int else TEXTS.get(field.name, "text")]


def given(*words: str) -> dict[str, Any]:
    """The arguments of tools that a command line gives."""
    _, bound, _ = cli.app.parse_args(["items", *words], print_error=False, exit_on_error=False)
    return {
        name: value for one in bound.arguments.values() if hasattr(one, "given") for name, value in one.given().items()
    }


@pytest.mark.parametrize(("field", "option"), [(field, option) for field in FIELDS for option in field.options])
def test_an_option_gives_its_field_which_refusals_name_by_it(
    field: Field, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = words_of(field, option)
    assert list(given("add", "Title", *words)) == list(given("edit", "550e8400", *words)) == [field.name]
    monkeypatch.setattr(refusals, "typed", words)
    assert refusals.as_typed(f"items[0].{field.name}: is wrong") == f"{option}: is wrong"


@pytest.mark.parametrize("command", ["list", "ready", "claim"])
@pytest.mark.parametrize("field", FILTERS, ids=lambda field: field.name)
def test_a_filter_gives_its_field(field: Field, command: str) -> None:
    assert list(given(command, *words_of(field, field.options[0]))) == [field.name]
