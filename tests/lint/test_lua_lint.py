"""The lint for Lua finds every kind of problem, and none in the product."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.store.libraries.build import CONSTANTS, Constants
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.items.store.claims import ClaimReply
from coordinator.toolsets.items.store.next import Next
from tests.lint import lua_lint, lua_names, lua_replies

HEADER = """\
--[[
purpose:   p
guarantee: g
args:      {args}
reply:     {reply}
errors:    none
owns:      {owns}
--]]
"""
RUN = """\
-- owns: none
return function(args)
  return {cap = args.cap, env = args.env, gone = args.gone, made = true}
end
"""
"""The module with the state of a call, which every library has."""


class Folder(NamedTuple):
    """A library in a separate folder."""

    folder: Path
    places: list[Path]
    constants: Mapping[str, Constants] = CONSTANTS


def problems(
    tmp_path: Path, operation: str, *, args: str = "none", reply: str = "r", owns: str = "none", **modules: str
) -> list[str]:
    """The problems in a library of one operation, ``op``, whose body begins in line 9, and modules."""
    folder = Folder(tmp_path / "lua", [tmp_path / "lua"])
    (folder.folder / "layout").mkdir(parents=True)
    (folder.folder / "op.lua").write_text(HEADER.format(args=args, reply=reply, owns=owns) + operation)
    for name, text in {"run": RUN, **modules}.items():
        (folder.folder / "layout" / f"{name}.lua").write_text(text)
    return [f"{path.stem}:{line}: {text}" for path, line, text in sorted(lua_lint.Lint([folder]).problems)]


def operation(*lines: str, parameters: str = "run") -> str:
    return "\n".join((f"return function({parameters})", *lines, "end", ""))


def module(*lines: str, owns: str = "none") -> str:
    return "\n".join((f"-- owns: {owns}", "local m = {}", *lines, "return m", ""))


USES = "local m = require 'm'\n\n" + operation("return m.f()")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return missing", ["op:10: undefined name 'missing'"]),
        ("return string.trim('x')", ["op:10: the server offers no 'string.trim'"]),
        ("return os.getenv('x')", ["op:10: the server offers no 'os.getenv'"]),
        ("made = 1", ["op:10: writes the global 'made'"]),
        ("function made() end", ["op:10: writes the global 'made'"]),
        ("string.trim = 1", ["op:10: the server offers no 'string.trim'", "op:10: writes to the global 'string'"]),
        ("local a = 1", ["op:10: the local 'a' is not used"]),
        ("local a\na = 1", ["op:10: the local 'a' is not used"]),
        ("local function f() end", ["op:10: the function 'f' is not used"]),
        ("for n = 1, 2 do end", ["op:10: the local 'n' is not used"]),
        ("for _, n in ipairs({}) do return n end", []),
        ("return (function(a) end)()", ["op:10: the parameter 'a' is not used"]),
        ("local a = 1\ndo\n  local a = 2\n  return a\nend\nreturn a",
         ["op:12: 'a' shadows the local of line 10"]),
        ("local a = 1\nlocal a = a + 1\nreturn a", ["op:11: 'a' is declared twice in one block"]),
        ("local run = 1\nreturn run", ["op:10: 'run' shadows the parameter of line 9"]),
        ("local type = 1\nreturn type", ["op:10: 'type' shadows what the server offers under that name"]),
        ("local n = 0\nrepeat\n  local done = n > 3\n  n = n + 1\nuntil done", []),
        ("return require 'm'", ["op:10: a module is named at the top of the file, as: local name = require 'name'"]),
        ("return redis.call('GET', run.keys.itm)", ["op:10: no key family 'itm' in coordinator/store/keys.py"]),
        ("return run.keys", ["op:10: run.keys is for single families only: run.keys.<family>"]),
        ("run.keys.item = 1", ["op:10: writes to run.keys, which later calls get too"]),
        ("local call = redis.call\nreturn call('GET', run.keys.item)", ["op:10: redis.call is only called"]),
        ("return pcall(redis.call, 'DEL', run.keys.item)", ["op:10: redis.call is only called"]),
        ("return redis['call']('DEL', run.keys.item)", ["op:10: of 'redis' only fields are used: redis.<field>"]),
        ("local server = redis\nreturn server.call('DEL', run.keys.item)",
         ["op:10: of 'redis' only fields are used: redis.<field>"]),
        ("cjson.encode_keep_buffer(false)", ["op:10: the server offers no 'cjson.encode_keep_buffer'"]),
        ("getmetatable('').__index = nil", ["op:10: undefined name 'getmetatable'"]),
        ("return run.nwo", ["op:10: run.nwo is neither made by the module run nor an argument"]),
        ("run.kept = 1", ["op:10: run.kept is neither made by the module run nor an argument"]),
        ("run['kept'] = 1", ["op:10: run[..] is what a module keeps during a call: only its own, run[<the module>]"]),
        ("run.made = 1\nreturn run.made", []),
        (f"return '{'x' * 120}'", ["op:10: 129 characters, allowed are 120"]),
        ("return redis.call('FLUSHALL')",
         ["op:10: the family of the key that is written here cannot be told",
          "op:10: whether 'FLUSHALL' writes is not known (lua_writes.py)"]),
        ("return redis.call(cmsgpack.unpack('x'), 'k')", []),
        ("return redis.call('DEL', cmsgpack.unpack('x'))",
         ["op:10: the family of the key that is written here cannot be told"]),
    ],
)  # fmt: skip
def test_problems_in_a_file_are_found(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert problems(tmp_path, operation(body)) == expected


def test_a_file_that_is_not_lua_is_reported(tmp_path: Path) -> None:
    assert problems(tmp_path, "return function(run)\n  return run run\nend\n") == ["op:10: not Lua: unexpected 'run'"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (module("local n = 0", "function m.f()", "  n = n + 1", "  return n", "end"),
         ["m:5: 'n' of line 3, at the module's level, is assigned again: there are no variables"]),
        (module("local n", "n = 1", "function m.f()", "  return n", "end"), []),
        (module("local KINDS = {}", "function m.f()", "  KINDS.a = 1", "end"),
         ["m:5: changes 'KINDS', which is at the module's level: the state of a call belongs in `run`"]),
        (module("local KINDS = {}", "function m.f()", "  table.insert(KINDS, 1)", "end"),
         ["m:5: changes 'KINDS', which is at the module's level: the state of a call belongs in `run`"]),
        (module("function m.f()", "  m.known = 1", "end"),
         ["m:4: changes 'm', which is at the module's level: the state of a call belongs in `run`",
          "m:4: the module 'm' has no 'known'"]),
        (module("local KINDS = {}", "function m.f(a)", "  rawset(KINDS, a, 1)", "end"),
         ["m:5: changes 'KINDS', which is at the module's level: the state of a call belongs in `run`"]),
        (module("local KINDS = {}", "function m.f(a)", "  local kinds = KINDS", "  kinds[a] = 1", "end"),
         ["m:6: changes 'KINDS', which is at the module's level: the state of a call belongs in `run`"]),
        (module("local KINDS = {x = {}}", "function m.f(a)", "  local kind = KINDS[a]", "  kind.seen = true", "end"),
         ["m:6: changes 'KINDS', which is at the module's level: the state of a call belongs in `run`"]),
        (module("local KINDS = {}", "local function put(list, a) list[a] = 1 end",
                "local function pass(list, a) put(list, a) end", "function m.f(a) pass(KINDS, a) end"),
         ["m:6: 'KINDS', which is at the module's level, is changed there"]),
        (module("local function make()", "  local n = 0", "  return function()", "    n = n + 1", "    return n",
                "  end", "end", "local count = make()", "function m.f() return count() end"),
         ["m:10: the function that is made here has variables at the module's level"]),
        (module("local function f(list)", "  local own = {list}", "  own[2] = 1", "  return own", "end",
                "local KINDS = {}", "function m.f() return f(KINDS) end"), []),
        (module("local KINDS = {}", "for n = 1, 3 do KINDS[n] = n end", "function m.f() return KINDS end"), []),
        (module("function m.g() return 1 end"),
         ["m:3: 'm.g' is used by no other file", "op:12: the module 'm' has no 'f'"]),
        (module("function m.f() return m.gone() end"), ["m:3: the module 'm' has no 'gone'"]),
        (module("local function f() return 1 end", "m.f = f"), []),
        (module("local other = {}", "function m.f(run)", "  run[m] = 1", "  run[other] = 1", "  return run[m]", "end"),
         ["m:6: run[..] is what a module keeps during a call: only its own, run[<the module>]"]),
    ],
)  # fmt: skip
def test_problems_in_a_module_are_found(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, USES, m=text) == expected


def test_modules_must_exist_and_be_used(tmp_path: Path) -> None:
    text = "local lost = require 'lost'\nlocal other = require 'm'\n\n" + operation("return lost.f(other)")
    assert problems(tmp_path, text, m=module()) == [
        "m:1: no file uses this module",
        "op:9: there is no module 'lost'",
        "op:10: a module is named at the top of the file, as: local name = require 'name'",
    ]


def test_constants_that_python_declares_are_known(tmp_path: Path) -> None:
    body = "return record_layout.TEXTS_AT + record_layout.TEXT_AT"
    assert problems(tmp_path, "local record_layout = require 'record_layout'\n\n" + operation(body)) == [
        "op:12: the module 'record_layout' has no 'TEXT_AT'"
    ]


def test_a_module_that_a_file_names_has_to_be_used_there(tmp_path: Path) -> None:
    assert problems(tmp_path, "local m = require 'm'\n\n" + operation(), m=module()) == [
        "op:9: the module 'm' is not used"
    ]


def test_a_write_to_a_module_is_reported(tmp_path: Path) -> None:
    text = "local m = require 'm'\n\n" + operation("m.f = 1")
    assert problems(tmp_path, text, m=module()) == [
        "op:12: the module 'm' has no 'f'",
        "op:12: writes to the module 'm'",
    ]


def test_a_write_to_a_module_by_a_function_of_another_is_reported(tmp_path: Path) -> None:
    text = "local m = require 'm'\n\nlocal SEEN = {}\n\n" + operation("m.put(SEEN, 1)")
    assert problems(tmp_path, text, m=module("function m.put(list, a) list[a] = true end")) == [
        "op:14: 'SEEN', which is at the module's level, is changed there"
    ]


def test_import_cycles_are_reported(tmp_path: Path) -> None:
    a = "local b = require 'b'\nlocal a = {}\nfunction a.f() return b.f() end\nreturn a\n"
    b = "local a = require 'a'\nlocal b = {}\nfunction b.f() return a.f() end\nreturn b\n"
    text = "local a = require 'a'\n\n" + operation("return a.f()")
    assert problems(tmp_path, text, a=a, b=b) == ["b:1: modules use each other in a circle: a -> b -> a"]


def test_a_cycle_of_unused_modules_is_reported(tmp_path: Path) -> None:
    own = "local own = require 'own'\nreturn own\n"
    assert "own:1: modules use each other in a circle: own -> own" in problems(tmp_path, operation(), own=own)


def test_the_header_must_match_the_parameters(tmp_path: Path) -> None:
    text = operation("return {request, name, rest, run.cap}", parameters="run, request, name, rest")
    assert problems(tmp_path, text, args="request run.cap name rest...") == []
    assert problems(tmp_path / "2", text, args="request name run.cap") == [
        "op:9: takes (run, request, name, rest), by its header (run, request, name)"
    ]
    assert problems(tmp_path / "3", "return 1\n") == ["op:1: an operation ends with: return function(run, ...)"]
    (problem,) = problems(tmp_path / "4", operation(), args="One")
    assert problem.startswith("op:1: op.lua: args: ")  # what the loader says


BATCH = module(
    "function m.f(run, command, key, list)",
    "  if key then redis.call(command, key, unpack(list)) else redis.call(command, unpack(list)) end",
    "  return run",
    "end",
)


@pytest.mark.parametrize(
    ("body", "families"),
    [
        ("return redis.call('HGET', run.keys.item .. 'a', 'w')", ""),
        ("return redis.call('HSET', run.keys.item .. 'a', 'w', 1)", "item"),
        ("return redis.pcall('HSET', run.keys.item .. 'a', run.keys.text, 1)", "item"),
        ("local key = run.keys.note .. 'a'\nif key then redis.call('DEL', key) end", "note"),
        ("local a, b = run.keys.note, run.keys.text\nredis.call('SET', b, a)", "text"),
        ("redis.call('DEL', run.keys.item, run.keys.text)", "item text"),
        ("redis.call('COPY', run.keys.item, run.keys.text)", "item text"),
        ("redis.call('LMOVE', run.keys.item, run.keys.text .. 'x', 'LEFT', 'RIGHT')", "item text"),
        ("local c = run and 'ZADD' or 'ZREM'\nredis.call(c, run.keys.ranked .. '*', 1, 2)", "ranked"),
        ("redis.call(run and 'ZRANGE' or 'ZREM', run.keys.ranked .. '*', 1, 2)", "ranked"),
        ("redis.call('PUBLISH', 'wake', 'x', redis.call('DEL', run.keys.owed))", "owed"),
        ("run.env = {}\nredis.call('RPUSH', run.env.rq .. 'queue:', 1)", "rq"),
        ("local gone = {}\ngone[#gone + 1] = run.keys.notes .. 'a'\nredis.call('DEL', unpack(gone))", "notes"),
        ("local gone = {}\ntable.insert(gone, run.keys.notes .. 'a')\nredis.call('DEL', unpack(gone))", "notes"),
        ("for _, key in ipairs({run.keys.owed}) do redis.call('DEL', key) end", "owed"),
        ("local function key_of(id) return run.keys.edges .. id end\nredis.call('DEL', key_of('a'))", "edges"),
        ("local function drop(key) redis.call('DEL', key) end\ndrop(run.keys.edges .. 'a')", "edges"),
        ("table.sort({}, function(a, b) return a < b, redis.call('DEL', run.keys.owed) end)", "owed"),
        ("run.gone = {run.keys.text}\nredis.call('DEL', unpack(run.gone))", "text"),
        ("local gone = {[run.keys.text] = 1}\nfor key in pairs(gone) do redis.call('DEL', key) end", "text"),
        ("local gone = {}\ngone[run.keys.text] = 1\nfor key in pairs(gone) do redis.call('DEL', key) end", "text"),
        ("redis.call('DEL', string.format('%s%s', run.keys.text, 1))", "text"),
        ("return run.keys.item, redis.call('DEL', string.sub(run.keys.owed, 1))", "owed"),
    ],
)
def test_the_families_that_an_operation_writes_are_found(tmp_path: Path, body: str, families: str) -> None:
    assert problems(tmp_path, operation(body), owns=families or "none") == []
    found = [one.partition(": ")[2] for one in problems(tmp_path / "2", operation(body), owns="drains")]
    assert "owns: it does not write 'drains'" in found
    assert [one for one in found if "nobody" in one] == [
        f"writes {family}: nobody owns that" for family in families.split()
    ]


@pytest.mark.parametrize(
    ("call", "families"),
    [
        ("m.f(run, 'ZADD', run.keys.ranked .. '*', {1, run.keys.item})", "item ranked"),
        ("m.f(run, 'ZADD', run.keys.ranked .. '*', {1, 2})", "ranked"),
        ("m.f(run, 'ZRANGE', run.keys.ranked .. '*', {1, 2})", ""),
        ("m.f(run, 'DEL', nil, {run.keys.item, run.keys.text})", "item text"),
        ("pcall(m.f, run, 'DEL', nil, {run.keys.item})", ""),
    ],
)
def test_writes_are_followed_into_modules(tmp_path: Path, call: str, families: str) -> None:
    text = "local m = require 'm'\n\n" + operation(call)
    found = problems(tmp_path, text, owns=families or "none", m=BATCH)
    assert [line for line in found if "own" in line] == []


def test_dynamic_commands_are_allowed_only_without_writes(tmp_path: Path) -> None:
    body = "redis.call(cmsgpack.unpack('x'), 'k')\nredis.call('DEL', run.keys.owed)"
    assert problems(tmp_path, operation(body), owns="owed") == [
        "op:10: which command this is cannot be told, and op may write"
    ]


@pytest.mark.parametrize(
    ("body", "owns", "of_m", "expected"),
    [
        ("redis.call('HSET', run.keys.item .. 'a', 'k', 1, 'w', 2)", "item.k item.w", "none", []),
        ("redis.call('HSET', run.keys.item .. 'a', 'k', 1)", "item", "none", []),
        ("redis.call('HSET', run.keys.item .. 'a', 'k', 1)", "item", "item.k",
         ["op:12: writes item.k: m owns that", "op:7: owns: it does not write 'item'"]),
        ("redis.call('HDEL', run.keys.item .. 'a', 'k', 'w')", "item.k", "item",
         ["op:12: writes item: m owns that"]),
        ("redis.call('HSET', run.keys.item .. 'a', unpack({'k', 1}))", "item.k", "none",
         ["op:12: writes item: nobody owns that", "op:7: owns: it does not write 'item.k'"]),
        ("redis.call('DEL', run.keys.item .. 'a')", "item", "item", ["m:1: owns: op owns 'item', too"]),
        ("run.env = {}\nredis.call('DEL', run.env.rq)", "rq", "rq", []),
        ("redis.call('DEL', run.keys.owed)", "owed itm", "none",
         ["op:7: owns: it does not write 'itm'", "op:7: owns: there is no key family 'itm'"]),
        ("redis.call('DEL', run.keys.owed)", "none", "none",
         ["op:11: writes owed, which it may not", "op:12: writes owed: nobody owns that"]),
        ("return redis.call('GET', run.keys.owed)", "none", "owed",
         ["op:11: writes nothing, but uses what owns something: read(run, ...) is for that"]),
    ],
)  # fmt: skip
def test_a_file_writes_what_it_owns_alone(tmp_path: Path, body: str, owns: str, of_m: str, expected: list[str]) -> None:
    text = "local m = require 'm'\n\n" + operation("m.f()", body)
    found = problems(tmp_path, text.replace("m.f()", "m.f()", 1), owns=owns, m=module("function m.f() end", owns=of_m))
    unused = [one for one in found if "it does not write" in one and one.startswith("m:")]
    assert sorted(set(found) - set(unused)) == [one.replace("op:12", "op:13") for one in expected]


def test_fields_may_be_given_to_the_module_that_owns_the_hash(tmp_path: Path) -> None:
    items = module(
        "function m.set(run, id, field) redis.call('HSET', run.keys.item .. id, field, 1) end", owns="item"
    ).replace("m.set", "items.set").replace("local m", "local items").replace("return m", "return items")  # fmt: skip
    text = "local items = require 'items'\n\n" + operation("items.set(run, 'k')")
    assert problems(tmp_path, text, items=items) == []
    assert problems(tmp_path / "2", text, owns="item.k", items=items) == []
    other = "local m = require 'm'\n" + text.replace("items.set", "m.f()\nitems.set")
    used = module("function m.f() redis.call('HDEL', run.keys.item .. 'a', 'k') end", owns="item.k")
    found = problems(tmp_path / "3", other, items=items, m=used.replace("m.f()", "m.f(run)"))
    assert "op:14: writes item.k: m owns that" in found


def test_an_operation_that_reads_may_use_what_owns_something(tmp_path: Path) -> None:
    read = "-- owns: none\nreturn function(run, body) return body(run) end\n"
    text = "local m = require 'm'\nlocal read = require 'read'\n\n" + operation("return read(run, m.f)")
    owner = module("function m.f(run) return redis.call('GET', run.keys.owed) end", "function m.g() end", owns="owed")
    found = problems(tmp_path, text, read=read, m=owner)
    assert [one for one in found if one.startswith("op:")] == []
    writes = problems(tmp_path / "2", text, read=read, m=owner.replace("GET", "DEL"))
    assert "op:12: writes owed, which it may not" in writes


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("{now, list of Row (store/rows.py)}", []),
        ("{now, rows}: Row and read (store/rows.py)", []),
        ("list of Row\n           (store/rows.py)", []),
        ("Gone (store/rows.py)", ["op:5: reply: store/rows.py has no 'Gone'"]),
        ("Row and Gone (store/rows.py)", ["op:5: reply: store/rows.py has no 'Gone'"]),
        ("Row (store/gone.py)", ["op:5: reply: there is no store/gone.py"]),
    ],
)
def test_a_reply_names_python_that_exists(tmp_path: Path, reply: str, expected: list[str]) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "rows.py").write_text("class Row: ...\n\n\ndef read(): ...\n")
    assert problems(tmp_path, operation("return 1"), reply=reply) == expected


def test_a_reply_names_what_its_script_decodes() -> None:
    here, struct = Path(__file__).parents[1], {Folder}
    assert list(lua_replies.problems("list of Folder (lint/test_lua_lint.py)", here, struct)) == []
    missing = "does not name Folder (test_lua_lint.py), which decodes it"
    assert list(lua_replies.problems("{folder, places}", here, struct)) == [missing]
    assert list(lua_replies.problems("Folder (lint/lua_lint.py)", here, struct)) == [
        "lint/lua_lint.py has no 'Folder'",
        missing,
    ]
    assert lua_replies.decoders(LIBRARY.folder, "claim_item") == {ClaimReply}
    assert lua_replies.decoders(LIBRARY.folder, "next_items") == {Next}
    assert lua_replies.decoders(LIBRARY.folder, "ids_like") == set()


def test_luacheck_is_run_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = lua_lint.ROOT / "coordinator" / "store" / "lua" / "processes" / "read_drains.lua"
    lua_lint.luacheck([file])
    installed = tmp_path / "luacheck"
    installed.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\nexit 2\n')
    installed.chmod(0o755)
    lua_lint.luacheck([file])
    assert (tmp_path / "called").read_text().endswith(" -- coordinator/store/lua/processes/read_drains.lua\n")


def test_a_folder_without_a_library_is_found(tmp_path: Path) -> None:
    known, stray = tmp_path / "coordinator" / "a" / "lua", tmp_path / "workers" / "b" / "lua"
    for folder in (known / "layout", stray):
        folder.mkdir(parents=True)
    assert lua_lint.strays(tmp_path, [Folder(known, [])]) == [stray]


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.lua"
    path.write_text(
        "-- a\n\nlocal m = {}\n\nfunction m.f(a,\n    b)\n  return {\n    a,\n    missing,\n  }\nend\n\nreturn m\n"
    )
    assert lua_names.read(path).problems == [(5, "the parameter 'b' is not used"), (9, "undefined name 'missing'")]
