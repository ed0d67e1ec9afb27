"""Reading one Lua file: its header, the modules that it names, and its lines without comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.store.errors import ScriptError
from coordinator.store.libraries import source as lua_source
from coordinator.store.libraries.source import Header, Source

HEADER = {
    "purpose": "Something.",
    "guarantee": "Nothing else.",
    "args": "one two",
    "reply": "nothing",
    "errors": "none",
}


def header_text(**changes: str | None) -> str:
    fields = {**HEADER, **changes}
    return "--[[\n" + "".join(f"{name}: {text}\n" for name, text in fields.items() if text is not None) + "--]]\n"


def from_text(tmp_path: Path, text: str, name: str = "made.lua") -> Source:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return lua_source.read(path, tmp_path)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("  return 1 -- why", "return 1"),
        ("-- why", None),
        ("", None),
        ("local a, b = 'x, y = z -- no', \"it's -- no\" -- yes, = ", "local a,b='x, y = z -- no',\"it's -- no\""),
        (r"f('it\'s -- no') -- yes", r"f('it\'s -- no')"),
        ("x = tonumber(y.ipairs(string.sub(z, 1))) or pcall(unpack, z)", "x=N(y.ipairs(S(z,1)))or pcall(unpack,z)"),
        ("if a == 1 and b ~= 2 or c <= d then x = a - -1 end", "if a==1 and b~=2 or c<=d then x=a - -1 end"),
    ],
)
def test_a_line_loses_only_comments_and_needless_space(tmp_path: Path, line: str, kept: str | None) -> None:
    source = from_text(tmp_path, f"-- owns: none\n{line}\nreturn nil\n", "modules/made.lua")
    assert [one.text for one in source.lines] == [kept, "return nil"][kept is None :]


def test_every_line_knows_where_it_came_from(tmp_path: Path) -> None:
    operation = from_text(tmp_path, header_text() + "-- Why.\n\nreturn function() end\n")
    assert [line.origin for line in operation.lines] == ["made.lua:10"]
    module = from_text(tmp_path, "-- owns: none\nlocal made = {}\n\nreturn made\n", "modules/made.lua")
    assert [line.origin for line in module.lines] == ["modules/made.lua:2", "modules/made.lua:4"]


def test_a_file_names_the_modules_that_it_uses(tmp_path: Path) -> None:
    text = (
        "local one = require 'one'\nlocal two = require 'two' -- why\n-- local no = require 'no'\nreturn one.new(two)\n"
    )
    assert from_text(tmp_path, f"-- owns: none\n{text}", "modules/made.lua").requires == ["one", "two"]
    assert from_text(tmp_path, header_text() + text).requires == ["one", "two"]


def test_a_header_may_explain_its_arguments_and_run_over_lines(tmp_path: Path) -> None:
    text = (
        "--[[\npurpose: One\n  thing.\nguarantee: G\n"
        "args: request run.sid one\n  two_2 many...\n  one = a number\n  two\n"
        "reply: R: {a}\nerrors: GONE,\n  CONFLICT\nowns: item events\nfull: it deletes\n--]]\nreturn 1\n"
    )
    assert from_text(tmp_path, text).header == Header(
        ("request", "run.sid", "one", "two_2", "many..."),
        "R: {a}",
        frozenset({"GONE", "CONFLICT"}),
        frozenset({"item", "events"}),
        full=True,
    )
    none = from_text(tmp_path, header_text(args="none")).header
    assert none == Header(reply="nothing")


def test_a_module_says_what_it_owns(tmp_path: Path) -> None:
    source = from_text(tmp_path, "-- About it.\n-- owns: item.k beneath\n-- owns: item\nreturn 1\n")
    assert source.header == Header(owns=frozenset({"item.k", "beneath", "item"}))


def test_lines_know_the_function_that_they_are_of(tmp_path: Path) -> None:
    text = (
        "-- owns: none\nlocal made = {}\nlocal function f(a)\n  if a then\n    return 1\n  end\nend\n"
        "function made.g() return f() end\nlocal kinds = {}\nfunction kinds.a()\n  return 2\nend\nreturn made\n"
    )
    blocks = [(line.text, line.block) for line in from_text(tmp_path, text).lines]
    assert [block for _, block in blocks] == ["", "f", "f", "f", "f", "f", ".g", "", "", "", "", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--[[\npurpose: x\n", "has to begin with a contract header"),
        (header_text(purpose=None), "lacks 'purpose:'"),
        ("return 1\n", "has to begin with a contract in '--[[', or with a comment that has '-- owns:'"),
        ("-- Why.\n\n-- owns: none\nreturn 1\n", "has to begin with a contract"),
        ("", "has to begin with a contract"),
        (header_text(reply=""), "lacks 'reply:'"),
        (header_text(args="One"), "args: first come only names"),
        (header_text(args="rest... one"), "args: first come only names"),
        (header_text(args="ru.one"), "args: first come only names"),
    ],
)
def test_a_faulty_header_is_reported_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScriptError) as raised:
        from_text(tmp_path, text)
    assert str(raised.value).startswith("made.lua: ")
    assert words in str(raised.value)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"cannot read .*no_such\.lua"):
        lua_source.read(tmp_path / "no_such.lua", tmp_path)
    (tmp_path / "made.lua").write_bytes(b"\xff\xfe")
    with pytest.raises(ScriptError, match=r"cannot read .*made\.lua.*utf-8"):
        lua_source.read(tmp_path / "made.lua", tmp_path)
