"""Calls of tiny functions become their expressions, and mean what the calls meant."""

from __future__ import annotations

import pytest
import redis

from coordinator.store import lua_inline
from coordinator.store.address import parse

TINY = """local function third(n)
  return math.floor(n / 3)
end
local function held(it) return it.class % 3 == 1 end
local function either(a, b) return a or b end
local function twice(n) return n + n end
local function whole(n)
  return string.format('%d', n)
end
local function named() return 'it, n' end
local function nested(it) return either(it.g, third(it.class)) end
local function call(cmd, ...) return redis.call(cmd, ...) end
local seen = nil
local function slow(n)
  seen = n
  return seen
end
local function known(n) return seen or slow(n) end
""".splitlines()


def put(line: str, functions: list[str] = TINY) -> str:
    return lua_inline.inlined([*functions, line], [True] * len(functions) + [False])[-1]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("return third(x)", "return (math.floor(x / 3))"),
        ("return third(it.class + 1)", "return (math.floor((it.class + 1) / 3))"),
        ("if held(it) then return end", "if (it.class % 3 == 1) then return end"),
        ("return not held(other), held(it.pa)", "return not (other.class % 3 == 1), (it.pa.class % 3 == 1)"),
        ("return twice(x), twice(2)", "return (x + x), (2 + 2)"),
        ("return whole(third(f(a, b)))", "return (string.format('%d', ((math.floor((f(a, b)) / 3)))))"),
        ("return either('a,b', x)", "return ('a,b' or x)"),
        ("return either(t['),('], 1)", "return ((t['),(']) or 1)"),
        ("return named() .. x", "return ('it, n') .. x"),
        ("return nested(old)", "return ((old.g or ((math.floor(old.class / 3)))))"),
        ("f(third(x), -- third(y)", "f((math.floor(x / 3)), -- third(y)"),
        ("  third(x)", "  local _ = (math.floor(x / 3))"),
        ("return call('GET', a, g(1))", "return (redis.call('GET', a, g(1)))"),
        ("return known(x)", "return (seen or slow(x))"),
    ],
)
def test_a_call_becomes_the_expression(call: str, text: str) -> None:
    assert put(call) == text


@pytest.mark.parametrize(
    "line",
    [
        "return twice(f(x))",  # the argument would be evaluated twice
        "return third",
        "return third(x, y)",
        "return third()",
        "if x then third(x) end",
        "return x.third(x), x:third(x)",
        "return 'third(x)' -- third(x)",
        "return third(x,",
        "return call('GET')",
        "return call(x, cmd)",
        "third(x) third(x)",
        "return third (x)",
        "local function third(n) return n end",
        "return elsewhere(x)",
    ],
)
def test_whatever_else_stays_as_it_is(line: str) -> None:
    assert put(line) == line


@pytest.mark.parametrize(
    "function",
    [
        "local function f(n) return n, 1 end",
        "local function f(n) return {n} end",
        "local function f(n) return n + other end",
        "local function f(...) return select('#', ...) end",
        "local function f(n) return function() return n end end",
        "local function f(n) n = n + 1 return n end",
        "local function f(n) return unpack(redis.call('HSCAN', n)) end",
        "local function f(n) return string.find(n, 'x') end",
        "local function f(n) return struct.unpack('>I4', n) end",
    ],
)
def test_a_function_that_needs_more_stays_one(function: str) -> None:
    assert put("return f(x)", [function]) == "return f(x)"


def test_a_name_that_means_something_else_somewhere_is_left_alone() -> None:
    assert put("return held(x)", [*TINY, "local held = g()"]) == "return held(x)"
    assert put("return held(x)", [*TINY, "local function g(held) return held(x) end"]) == "return held(x)"
    assert put("return held(x)", [*TINY, "local function held(it)", "  return it + g", "end"]) == "return held(x)"


def test_functions_of_the_script_itself_stay() -> None:
    lines = ["local function f(n) return n + 1 end", "return f(x)"]
    assert lua_inline.inlined(lines, [False, False]) == lines


def test_the_text_answers_as_it_would_otherwise(redis_url: str) -> None:
    lines = [
        *TINY,
        "local it = {class = 7, g = false}",
        "return {third(ARGV[1]), twice(third(7)), tostring(held(it)), nested(it), whole(either(nil, 1e15)), named()}",
    ]
    text = lua_inline.inlined(lines, [True] * len(TINY) + [False] * 2)
    assert text != lines
    with redis.Redis(**parse(redis_url).client_options()) as client:
        answers = [client.eval("\n".join(script), 0, "10") for script in (lines, text)]
    assert answers[0] == answers[1] == [3, 4, b"true", 2, b"1000000000000000", b"it, n"]
