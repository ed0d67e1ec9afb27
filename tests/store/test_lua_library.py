"""What is made once and what each call begins with, and what the server lets a function do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from coordinator.identity.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Script, Store, lua_source
from coordinator.store.address import parse
from coordinator.store.errors import ScriptError
from coordinator.store.lua_library import WRITES
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services

HEADER = "--[[\npurpose: P\nguarantee: G\nargs: {args}\nreply: R\nerrors: none\n{full}--]]\n"
INCLUDE = """-- Help.
local LIMIT = 3
local NAMES = {
  'a', 'b',
}
local seen, last = {}, nil
local calls
redis.call('PING')

local function note(x)
  seen[#seen + 1] = NAMES[x] or x
  calls, last = (calls or 0) + 1, x
  return #seen .. '/' .. LIMIT .. ' ' .. seen[1] .. ' ' .. calls
end
"""


def made(tmp_path: Path, body: str, include: str = INCLUDE, args: str = "one", full: str = "") -> lua_source.Source:
    place = tmp_path / "package" / "lua"
    (place / "include").mkdir(parents=True, exist_ok=True)
    (place / "include" / "help.lua").write_text(include)
    (place / "script.lua").write_text(HEADER.format(args=args, full=full) + "-- @include help\n" + body)
    return lua_source.read(place / "script.lua", [tmp_path / "shared"])


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis(**parse(redis_url).client_options(), decode_responses=True) as client:
        yield client


def called(client: redis.Redis, source: lua_source.Source, *calls: str) -> list[object]:
    """What calls answer, one after the other."""
    client.function_load(source.text)
    try:
        return [client.fcall(source.function, 1, "key", arg) for arg in calls]
    finally:
        client.function_delete(source.function)


def test_what_is_made_once_stands_outside_and_what_a_call_begins_with_inside(tmp_path: Path) -> None:
    source = made(tmp_path, "local own = note(one)\nreturn own\n")
    outside, _, inside = source.text.partition("redis.register_function")
    assert outside.splitlines() == [
        f"#!lua name={source.function}", "local one", "local LIMIT = 3", "local NAMES = {", "  'a', 'b',", "}",
        "local seen, last", "local calls", *INCLUDE.splitlines()[9:],
    ]  # fmt: skip
    assert inside.splitlines()[1:] == [
        "one = ARGV[1]", "seen, last = {}, nil", "calls = nil", "redis.call('PING')", "local own = note(one)",
        "return own", "end, flags={'no-writes'}}",
    ]  # fmt: skip


def test_calls_leave_nothing_to_each_other(tmp_path: Path, client: redis.Redis) -> None:
    source = made(tmp_path, "note(one)\nreturn note('x')\n")
    assert called(client, source, "q", "p", "q") == ["2/3 q 2", "2/3 p 2", "2/3 q 2"]


def test_a_call_that_failed_leaves_nothing_either(tmp_path: Path, client: redis.Redis) -> None:
    source = made(tmp_path, "note(one)\nif one == 'bad' then error('no') end\nreturn note('x')\n")
    client.function_load(source.text)
    try:
        with pytest.raises(redis.ResponseError, match="no"):
            client.fcall(source.function, 1, "key", "bad")
        assert client.fcall(source.function, 1, "key", "q") == "2/3 q 2"
    finally:
        client.function_delete(source.function)


def test_included_functions_know_the_arguments(tmp_path: Path, client: redis.Redis) -> None:
    source = made(tmp_path, "return told()\n", "local function told() return one .. '!' end\n")
    assert called(client, source, "a", "b") == ["a!", "b!"]


def test_one_variable_is_declared_once(tmp_path: Path) -> None:
    twice = "local seen = {}\nlocal function f() return seen end\nlocal seen = 1\nlocal function g() return seen end\n"
    with pytest.raises(ScriptError, match=r"include/help.lua:3: 'seen' is declared by include/help.lua:1 too"):
        made(tmp_path, "return f() .. g()\n", twice)


@pytest.mark.parametrize(
    ("body", "full", "flags"),
    [
        ("return redis.call('GET', KEYS[1])", "", "{'no-writes'}"),
        ("return redis.call('SET', KEYS[1], one)", "", None),
        ("local call, word = redis.call, 'ZADD'\nreturn call(word, KEYS[1], 1, one)", "", None),
        ("return redis.call('GET', KEYS[1])", "full: reading\n", "{'no-writes'}"),
        ("return redis.call('DEL', KEYS[1])", "full: deleting frees memory\n", "{'allow-oom'}"),
    ],
)
def test_the_server_is_told_what_a_function_may_do(tmp_path: Path, body: str, full: str, flags: str | None) -> None:
    last = made(tmp_path, f"{body}\n", full=full).text.splitlines()[-1]
    assert last == (f"end, flags={flags}}}" if flags else "end}")


def test_only_what_is_told_to_runs_in_a_full_server(tmp_path: Path, client: redis.Redis) -> None:
    free = made(tmp_path, "return redis.call('DEL', KEYS[1])\n", full="full: deleting frees memory\n")
    read = made(tmp_path, "return redis.call('EXISTS', KEYS[1])\n")
    write = made(tmp_path, "redis.call('DEL', KEYS[1])\nreturn redis.call('SET', KEYS[1], one)\n")
    client.set("key", "value")
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            called(client, write, "a")
        assert client.get("key") == "value"
    finally:
        client.config_set("maxmemory", 0)
    for source in (free, read):
        client.function_load(source.text)
    client.config_set("maxmemory", 1)
    try:
        assert client.fcall(read.function, 1, "key", "") == 1
        assert client.fcall(free.function, 1, "key", "") == 1
    finally:
        client.config_set("maxmemory", 0)
        for source in (free, read):
            client.function_delete(source.function)


def test_every_writing_command_of_a_script_is_known_as_one(client: redis.Redis) -> None:
    load_toolsets(Services(Settings(), Store("redis://127.0.0.1:1"), trust_self_reported))
    scripts = Script.registered()
    assert len(scripts) > 70
    assert len({script.function.rpartition("_")[0] for script in scripts}) == len(scripts), "versions of one name"
    writing = {name.upper() for name in client.command_list(category="write")} | {"PUBLISH", "SPUBLISH"}
    used = {word for script in scripts for word in re.findall(r"'([A-Z]+)'", script.text)}
    assert {"ZADD", "XADD", "HDEL"} <= used & writing <= WRITES
