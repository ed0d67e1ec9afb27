"""The loader: headers, includes, key names, and what it says about faulty files."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.store import lua_source
from coordinator.store.errors import ScriptError

FIXTURES = Path(__file__).parent / "fixtures"
HEADER = {
    "purpose": "Something.",
    "guarantee": "Nothing else.",
    "args": "one two",
    "reply": "nothing",
    "errors": "none",
}


def read(name: str) -> lua_source.Source:
    return lua_source.read(FIXTURES / "loader" / f"{name}.lua", [FIXTURES / "shared"])


def header_text(**changes: str | None) -> str:
    fields = {**HEADER, **changes}
    return "--[[\n" + "".join(f"{name}: {text}\n" for name, text in fields.items() if text is not None) + "--]]\n"


def from_text(tmp_path: Path, text: str) -> lua_source.Source:
    path = tmp_path / "made.lua"
    path.write_text(text, encoding="utf-8")
    return lua_source.read(path, [FIXTURES / "shared"])


def test_includes_are_taken_once_where_first_asked_for() -> None:
    source = read("plain")
    assert [Path(file).stem for file in source.files] == ["plain", "upper", "lower"]
    assert source.text.count("local function lower") == 1
    assert source.text.index("local function lower") < source.text.index("local function upper")
    assert "\nfirst, second = ARGV[1], ARGV[2]\n" in source.text


def test_every_line_knows_where_it_came_from() -> None:
    source = read("plain")
    lines = source.text.splitlines()
    assert len(lines) == len(source.origins)
    where = {origin for line, origin in zip(lines, source.origins, strict=True) if "string.upper" in line}
    assert where == {"include/upper.lua:4"}
    assert source.origins[-2] == "plain.lua:10"


def test_the_same_source_is_read_the_same_way_each_time() -> None:
    assert read("plain") == read("plain")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", ["include/outer.lua:1", "no include 'nowhere'", "missing.lua -> include/outer.lua"]),
        ("circular", ["include/ring_b.lua:1", "circular.lua -> include/ring_a.lua -> include/ring_b.lua"]),
        ("twice", ["twice.lua:9", "includes 'upper' twice"]),
        ("ambiguous", ["ambiguous.lua:8", "'both' exists twice", "loader/include/both.lua", "shared/both.lua"]),
        ("bad_name", ["bad_name.lua:8", "'../plain' cannot name an include"]),
        ("keys_unasked", ["keys_unasked.lua:8", "K_ITEM", "'-- @include keys'"]),
        ("keys_early", ["keys_early.lua:8", "K_ITEM", "before"]),
        ("keys_unknown", ["keys_unknown.lua:9", "K_NOSUCH is not a declared key family"]),
        ("no_such_file", ["no such script", "no_such_file.lua"]),
    ],
)
def test_a_faulty_include_is_told_with_its_place(name: str, words: list[str]) -> None:
    with pytest.raises(ScriptError) as raised:
        read(name)
    for word in words:
        assert word in str(raised.value)


def test_key_names_are_made_for_what_is_used() -> None:
    text = read("keys_used").text
    assert "\nP = KEYS[1]\n" in text
    assert "P .. 'i:' .. " in text
    assert "K_ITEM" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return 1\n", ["must begin with a contract header"]),
        ("", ["must begin with a contract header"]),
        ("--[[\npurpose: x\n", ["not closed"]),
        (header_text(purpose=None), ["lacks 'purpose:'"]),
        (header_text(errors=None), ["lacks 'errors:'"]),
        (header_text(reply=""), ["lacks 'reply:'"]),
        (header_text(events="claimed"), ["unknown header field 'events'", "guarantee, args, reply, errors, full"]),
        ("--[[\npurpose: a\npurpose: b\n--]]\n", ["made.lua:3", "'purpose' is there twice"]),
        ("--[[\nsome words\n--]]\n", ["made.lua:2", "field: text"]),
        (header_text(args="One"), ["'One' are not argument names"]),
        (header_text(args="one one"), ["'one' is there twice"]),
        (header_text(args="rest... one"), ["'rest...' takes the rest, so it must come last"]),
        (header_text(args="one end"), ["'end' is a word of Lua"]),
        (header_text(args="redis"), ["'redis' is a word of Lua or of the server"]),
        (header_text(errors="conflict"), ["'conflict' is not a code"]),
    ],
)
def test_a_faulty_header_is_told(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ScriptError) as raised:
        from_text(tmp_path, text)
    for word in words:
        assert word in str(raised.value)


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "made.lua").write_bytes(b"\xff\xfe")
    with pytest.raises(ScriptError, match="not UTF-8"):
        lua_source.read(tmp_path / "made.lua", [tmp_path])


def test_a_header_may_explain_its_arguments_and_run_over_lines(tmp_path: Path) -> None:
    header = from_text(
        tmp_path,
        "--[[\npurpose: One\n  thing.\nguarantee: G\nargs: one\n  two_2 many...\n  one = a number\n  two\n"
        "reply: R: {a}\nerrors: GONE,\n  CONFLICT\n--]]\nreturn 1\n",
    ).header
    assert header.args == ("one", "two_2", "many")
    assert header.variadic
    assert header.errors == {"GONE", "CONFLICT"}


def test_a_script_without_arguments_gets_no_locals(tmp_path: Path) -> None:
    source = from_text(tmp_path, header_text(args="none") + "return 1\n")
    assert source.text == (
        f"#!lua name={source.function}\n"
        f"redis.register_function{{function_name='{source.function}', callback=function(KEYS, ARGV)\n"
        "return 1\nend, flags={'no-writes'}}\n"
    )


def test_the_name_follows_from_package_file_and_text(tmp_path: Path) -> None:
    one, other = (from_text(tmp_path, header_text() + f"return {n}\n").function for n in (1, 2))
    assert one.rpartition("_")[0] == other.rpartition("_")[0] == f"fleet_{tmp_path.parent.name}_made"
    assert one != other
    assert from_text(tmp_path, header_text() + "-- Why.\n\nreturn 1\n").function == one


@pytest.mark.parametrize("argument", ["state", "helper", "count"])
def test_an_argument_cannot_be_named_like_what_an_include_declares(tmp_path: Path, argument: str) -> None:
    (tmp_path / "include").mkdir()
    helper = "local function helper(own)\n  local inner = own\n  return inner\nend\n"
    (tmp_path / "include" / "helpers.lua").write_text("-- Helpers.\n" + helper + "local state, count = {}, 0\n")
    body = "-- @include helpers\nreturn helper(state, count)\n"
    with pytest.raises(ScriptError, match=rf"include/helpers.lua:\d: '{argument}' is declared by made.lua:args too"):
        from_text(tmp_path, header_text(args=f"own {argument}...") + body)
    assert from_text(tmp_path, header_text(args="own inner") + body).header.args == ("own", "inner")
