"""What only a rarely called function uses is declared in its body, and works there as before."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from coordinator.store import lua_source
from coordinator.store.address import parse

HEADER = "--[[\npurpose: P\nguarantee: G\nargs: none\nreply: R\nerrors: none\n--]]\n"
INCLUDE = """-- Help.
local seen = 0
local NAMES = {'a', 'b'}

local function both(x)
  local same = x
  return same
end

local function inner(x)
  seen = seen + 1
  return both(x) .. NAMES[1]
end

local function deep(x) -- @rare: hardly ever
  return inner(x) .. NAMES[2]
end

local function often(x)
  local text = both(x)
  return text .. 'o'
end

local function outer(x) -- @rare
  return deep(x) .. often(x) .. seen
end

local function start(x)
  if x == '' then return often(x) end
  return outer(x)
end
"""


def flattened(tmp_path: Path, body: str) -> lua_source.Source:
    (tmp_path / "include").mkdir(exist_ok=True)
    (tmp_path / "include" / "help.lua").write_text(INCLUDE)
    (tmp_path / "script.lua").write_text(HEADER + "-- @include help\n" + body)
    return lua_source.read(tmp_path / "script.lua", tmp_path / "shared")


def test_what_nothing_else_uses_goes_into_the_rare_function(tmp_path: Path) -> None:
    lines = flattened(tmp_path, "return start('')\n").text.splitlines()
    order = [line.split("(")[0].removeprefix("local ") for line in lines if line.startswith("local ")]
    assert order == [
        "seen = 0", "function both", "function often", "function outer",
        "function deep", "NAMES = {'a', 'b'}", "function inner", "function start",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "outside"),
    [
        ("return start('') .. inner('x')\n", {"inner", "NAMES"}),
        ("return start('') .. NAMES[1]\n", {"NAMES"}),
        ("return deep('x')\n", set()),
    ],
)
def test_what_others_use_too_stays_outside(tmp_path: Path, body: str, outside: set[str]) -> None:
    text = flattened(tmp_path, body).text
    before = text[: text.index("function deep")]
    for name in ("function inner", "NAMES ="):
        assert (name in before) == (name.removeprefix("function ").removesuffix(" =") in outside)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("return start('')\n", b"o"),
        ("return start('x')\n", b"xabxo1"),
        ("return start('x') .. start('y') .. start('')\n", b"xabxo1yabyo2o"),
        ("return inner('z') .. start('x')\n", b"zaxabxo2"),
    ],
)
def test_a_nested_script_answers_as_it_would_otherwise(
    tmp_path: Path, redis_url: str, body: str, answer: bytes
) -> None:
    plain = INCLUDE + body
    with redis.Redis(**parse(redis_url).client_options()) as client:
        assert client.eval(plain, 0) == client.eval(flattened(tmp_path, body).text, 0) == answer


def test_lines_still_know_where_they_came_from(tmp_path: Path) -> None:
    source = flattened(tmp_path, "return start('x')\n")
    file = ["", *INCLUDE.splitlines()]
    for line, origin in zip(source.text.splitlines(), source.origins, strict=True):
        name, _, number = origin.partition(":")
        if name == "include/help.lua":
            assert file[int(number)] == line
