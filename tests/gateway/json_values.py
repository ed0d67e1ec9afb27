"""Strategies for JSON values, as expressions and mappings see them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b_c", "contains_pii", "starts_with_x", "n-1", "true", "null", "0")
leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(10**20), 10**20),
    st.floats(-2, 2).map(lambda value: round(value, 2)),
    st.sampled_from(["", "a", "ab", "true", "1", "null", "contains", "a b"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)
