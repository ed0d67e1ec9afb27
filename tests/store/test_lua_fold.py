"""Constants stand where they are used, and mean there what they mean in Lua."""

from __future__ import annotations

import pytest

from coordinator.store import lua_fold


def folded(*lines: str) -> list[str]:
    return lua_fold.constants(lines)[0]


@pytest.mark.parametrize(
    ("declaration", "use", "text"),
    [
        ("local A = 5", "return A + 1", "return 5 + 1"),
        ("local A, B = 1, 'x'", "return A .. B", "return 1 .. 'x'"),
        ("local A = -1 -- below", "return 2 - A", "return 2 - (-1)"),
        ("local A = 2 ^ 41", "return 4 % A", "return 4 % (2 ^ 41)"),
        ("local A = 2 * 256 + 255", "return -A", "return -(2 * 256 + 255)"),
        ("local A = 'qw'", "return #A", "return #'qw'"),
        ('local A_1 = "fc:"', "call(A_1)", 'call("fc:")'),
        ("local A = 5", "return x.A, x..A, x:A(), AA, aA", "return x.A, x..5, x:A(), AA, aA"),
        ("local A = 5", "return 'A', \"A 'A\", A -- A", "return 'A', \"A 'A\", 5 -- A"),
        ("local A = 5", "return '\\'A', A == 4", "return '\\'A', 5 == 4"),
    ],
)
def test_a_constant_is_put_in_its_place(declaration: str, use: str, text: str) -> None:
    assert folded(declaration, use) == [text]


@pytest.mark.parametrize(
    "lines",
    [
        ("local A = {}", "return A"),
        ("local A = x", "return A"),
        ("local A = 'a,b', 2", "return A"),
        ("local A, B = f()", "return A"),
        ("local a = 5", "return a"),
        ("  local A = 5", "return A"),
        ("local A = 5", "A = 6"),
        ("local A = 5", "return {A = 1}"),
        ("local A = 5", "local function f(A) return A end"),
        ("local A = 5", "for A = 1, 2 do f(A) end"),
        ("local A = 5", "for n, A in pairs(t) do f(A) end"),
        ("local A = 5", "  local b, A = 1, 2"),
        ("local A = 'x'", "return A:byte()"),
        ("local A = 'it''s'", "return A"),
    ],
)
def test_whatever_else_stays_as_it_is(lines: tuple[str, ...]) -> None:
    assert folded(*lines) == list(lines)


def test_a_name_that_is_declared_again_means_the_latter_from_there_on() -> None:
    lines = ("local A = 1", "local function f() return A end", "local A = 2", "return A")
    assert lua_fold.constants(lines) == (["local function f() return 1 end", "return 2"], [1, 3])
