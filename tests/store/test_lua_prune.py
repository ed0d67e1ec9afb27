"""What an include offers and a script does not use is left out; everything else stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.store import lua_source

HEADER = "--[[\npurpose: P\nguarantee: G\nargs: none\nreply: R\nerrors: none\n--]]\n"
INCLUDE = """-- Shapes.
local SIDES = 4
local NAMES = {
  square = SIDES,
}

local function inner(x)
  local function nested(y)
    return y
  end
  return nested(x) * SIDES
end

local function outer(x)
  local y = inner(x)
  return y
end

local function short(x) return {x} end
local one, two = 1, 2
"""


def flattened(tmp_path: Path, body: str, include: str = INCLUDE) -> str:
    (tmp_path / "include").mkdir(exist_ok=True)
    (tmp_path / "include" / "shapes.lua").write_text(include)
    (tmp_path / "script.lua").write_text(HEADER + "-- @include shapes\n" + body)
    return lua_source.read(tmp_path / "script.lua", [tmp_path / "shared"]).text


@pytest.mark.parametrize(
    ("body", "there", "gone"),
    [
        ("return 1\n", [], ["SIDES", "NAMES", "inner", "outer", "short", "one, two", "nested", "square"]),
        ("return outer(1)\n", ["local function outer", "local function inner", "local SIDES = 4", "nested"], ["NAMES"]),
        ("return NAMES.square\n", ["NAMES = {", "square = SIDES"], ["inner"]),
        ("return short(two)\n", ["function short", "one, two"], ["SIDES"]),
        ("-- outer\nreturn 1\n", [], ["outer"]),
    ],
)
def test_only_what_is_used_stays(tmp_path: Path, body: str, there: list[str], gone: list[str]) -> None:
    text = flattened(tmp_path, body)
    for word in there:
        assert word in text
    for word in gone:
        assert word not in text.replace("-- outer", "")


def test_the_scripts_own_lines_stay(tmp_path: Path) -> None:
    body = "local unused = redis.call('TIME')\nlocal function idle()\n  return 1\nend\nreturn 1\n"
    assert f"\n{body}end" in flattened(tmp_path, body)


def test_key_names_of_what_was_left_out_are_left_out_too(tmp_path: Path) -> None:
    include = "-- @include keys\nlocal function a()\n  return K_ITEM\nend\nlocal function b()\n  return K_EVENTS\nend\n"
    text = flattened(tmp_path, "return b()\n", include)
    assert "P .. 'ev'" in text
    assert "'i:'" not in text
    assert text.index("local P\n") < text.index("P .. 'ev'")


def test_lines_still_know_where_they_came_from(tmp_path: Path) -> None:
    flattened(tmp_path, "return outer(1)\n")
    source = lua_source.read(tmp_path / "script.lua", [tmp_path / "shared"])
    place = dict(zip(source.text.splitlines(), source.origins, strict=True))
    assert place["  local y = inner(x)"] == "include/shapes.lua:15"
    assert place["return outer(1)"] == "script.lua:9"
