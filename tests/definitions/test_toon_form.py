"""TOON in answers: it round-trips, and has the form that clients know."""

from __future__ import annotations

from typing import Any

import toon_format
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.definitions import toon

# Whole numbers that JSON readers keep, and text without lone surrogates.
plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text(st.characters(codec="utf-8"), max_size=5)
values: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.dictionaries(names, values, max_size=4) | st.lists(values, max_size=4))
def test_written_toon_can_be_read(value: Any) -> None:
    assert toon_format.loads(toon.write(value)) == value


def test_a_table_holds_plain_values_only() -> None:
    options = [
        {"id": "yes", "effect": {"setVariable": {"go": True}}},
        {"id": "no", "effect": {"setVariable": {"go": False}}},
    ]
    assert toon.write({"options": options, "rows": [{"a": 1, "b": "x,y"}, {"b": "", "a": None}]}) == (
        "options[2]:\n"
        "  - id: yes\n"
        "    effect:\n"
        "      setVariable:\n"
        "        go: true\n"
        "  - id: no\n"
        "    effect:\n"
        "      setVariable:\n"
        "        go: false\n"
        "rows[2]{a,b}:\n"
        '  1,"x,y"\n'
        '  null,""'
    )


def test_empty_and_absent_values_have_their_old_form() -> None:
    assert toon.write({"tags": None, "rules": [], "more": {}}) == "tags: null\nrules[0]:\nmore:"
    assert toon.write({"x": {"a": {"n": 1}, "b": {"n": 2}}}) == "x:\n  a:\n    n: 1\n  b:\n    n: 2"
