"""Names are found and replaced where they are names, and nowhere else."""

from __future__ import annotations

import pytest

from coordinator.store import lua_names


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("return A + 1", "return (p) + 1"),
        ("call(A, AA, aA, A_1)", "call((p), AA, aA, A_1)"),
        ("return x.A, x..A, x:A(), A.x", "return x.A, x..(p), x:A(), (p).x"),
        ("return 'A', \"A 'A\", A -- A", "return 'A', \"A 'A\", (p) -- A"),
        ("return '\\'A', A == 4", "return '\\'A', (p) == 4"),
        ("return x . A, x .. A", "return x . A, x .. (p)"),
        ("return 1", "return 1"),
    ],
)
def test_a_name_is_replaced_wherever_it_is_one(line: str, text: str) -> None:
    assert lua_names.substitute(line, {"A": "(p)"}) == text


def test_the_names_of_a_line_are_no_fields_strings_or_comments() -> None:
    assert lua_names.words("local x = y.z .. 'w' -- v") == {"local", "x", "y"}
