"""The library of a package: which modules are in it, what its functions are called with, and what they may do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from coordinator.feed.position import LIBRARY as FEED
from coordinator.identity.keys.copies import LIBRARY as IDENTITY
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Library, Script, Store
from coordinator.store.errors import ScriptError
from coordinator.store.libraries.build import Constants
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.webhooks.records import LIBRARY as WEBHOOKS
from workers.tools.demo import LIBRARY as WORKERS

MOST_BYTES = 500_000
"""Of all libraries together. The server keeps them forever, and each of their functions, too."""
HEADER = "--[[\npurpose: P\nguarantee: G\nargs: {args}\nreply: R\nerrors: none\nowns: {owns}\n{full}--]]\n"
Make = Callable[..., Library]


def operation(body: str, *uses: str, args: str = "none", owns: str = "none", full: str = "") -> str:
    requires = "".join(f"local {name} = require '{name}'\n" for name in uses)
    return f"{HEADER.format(args=args, owns=owns, full=full)}{requires}return function(run, ...)\n{body}\nend\n"


def module(name: str, *uses: str, owns: str = "none") -> str:
    requires = "".join(f"local {use} = require '{use}'\n" for use in uses)
    used = "".join(f", {use}.name()" for use in uses)
    function = f"function {name}.name() return '{name}'{used} end"
    return f"-- About it.\n-- owns: {owns}\n{requires}local {name} = {{}}\n{function}\nreturn {name}\n"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a library of the files of a package: operations, and modules by ``m_<name>``."""

    def made(
        package: str = "made", uses: tuple[Library, ...] = (), constants: Constants | None = None, **files: str
    ) -> Library:
        folder = tmp_path / package / "lua"
        (folder / "modules").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / f"modules/{name[2:]}.lua" if name.startswith("m_") else folder / f"{name}.lua"
            path.write_text(text)
        if str(tmp_path) not in sys.path:
            monkeypatch.syspath_prepend(str(tmp_path))
        return Library(package, uses, {"declared": constants} if constants else {})

    return made


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis_client(parse(redis_url), decode_responses=True) as client:
        yield client


@contextmanager
def loaded(client: redis.Redis, *libraries: Library) -> Iterator[None]:
    for library in libraries:
        client.function_load(library.text)
    try:
        yield
    finally:
        for library in libraries:
            client.function_delete(library.name)


def test_a_module_is_there_once_and_after_those_that_it_uses(make: Make) -> None:
    library = make(
        one=operation("return top.name()", "top"), two=operation("return base.name()", "base", "top"),
        m_top=module("top", "middle", "base"), m_middle=module("middle", "base"), m_base=module("base"),
        m_unused=module("unused"),
    )  # fmt: skip
    assert [name for name in re.findall(r"^m\.(\w+)=", library.text, re.M) if name in "basemiddletopunused"] == [
        "base", "middle", "top",
    ]  # fmt: skip


def test_a_module_is_visible_only_where_it_is_required(make: Make, client: redis.Redis) -> None:
    library = make(
        asks=operation("return base.name()", "base"), does_not=operation("return base.name()"), m_base=module("base")
    )
    with loaded(client, library):
        assert client.fcall(library.function("asks"), 1, "fc:{p}:") == "base"
        with pytest.raises(redis.ResponseError, match="base"):
            client.fcall(library.function("does_not"), 1, "fc:{p}:")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"one": operation("", "nowhere")}, ["one.lua: no module 'nowhere'", "made/lua or ", "store/lua"]),
        ({"one": operation("", "a"), "m_a": module("a", "nowhere")}, ["modules/a.lua: no module 'nowhere'"]),
        (
            {"one": operation("", "a"), "m_a": module("a", "b"), "m_b": module("b", "a")},
            ["modules/b.lua: circular modules: a -> b -> a"],
        ),
        ({"one": operation("", "a"), "m_a": module("a", "a")}, ["modules/a.lua: circular modules: a -> a"]),
        (
            {"one": operation("", "clock"), "m_clock": module("clock")},
            ["'clock' exists twice", "made/lua/modules/clock.lua", "store/lua/calls/clock.lua"],
        ),
        ({"one": "--[[\nreturn 1\n"}, ["one.lua: has to begin with a contract header"]),
        (
            {"one": operation(""), "m_one": module("one")},
            ["two files have the name 'one'", "made/lua/modules/one.lua", "made/lua/one.lua"],
        ),
        ({"one": operation("local b, C = 1, 2")}, ["one.lua: C is a name of libraries"]),
        (
            {"one": operation("", "a"), "m_a": "-- owns: none\nreturn function(run, C) end\n"},
            ["modules/a.lua: C is a name"],
        ),
    ],
)
def test_a_fault_of_a_file_is_reported_with_its_place(make: Make, files: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ScriptError) as raised:
        make(**files)
    for word in words:
        assert word in str(raised.value)


def test_python_declares_constants_for_a_package_and_those_that_use_it(make: Make, client: redis.Redis) -> None:
    body = "return {declared.NUMBER, declared.TEXT, unpack(declared.LIST)}"
    constants = {"NUMBER": 7, "TEXT": "a", "LIST": ["b", "c"], "UNUSED": 1}
    library = make("other", constants=constants, one=operation(body, "declared"))
    user = make("made", (library,), two=operation(body, "declared"))
    with loaded(client, library, user):
        for name, one in (("one", library), ("two", user)):
            assert client.fcall(one.function(name), 1, "fc:{p}:") == [7, "a", "b", "c"]
            assert "UNUSED" not in one.text
    with pytest.raises(ScriptError, match="no module 'declared'"):
        make("third", three=operation(body, "declared"))


def test_a_package_may_use_modules_of_another_and_have_its_own_state(make: Make, client: redis.Redis) -> None:
    other = make("other", m_shared=module("shared"))
    run = "-- owns: none\nreturn function(run, prefix) run.own = '!' return run end"
    library = make("made", (other,), one=operation("return shared.name() .. run.own", "shared"), m_run=run)
    with loaded(client, library):
        assert client.fcall(library.function("one"), 1, "fc:{p}:") == "shared!"


@pytest.mark.parametrize(
    ("args", "words", "given"),
    [
        ("none", [], ["default"]),
        ("one two", ["a", "b"], ["default", "a", "b"]),
        ("rest...", [], ["default", []]),
        ("one rest...", ["a", "b", "c"], ["default", "a", ["b", "c"]]),
        ("run.project one", ["mine", "a"], ["mine", "a"]),
        ("request one", ["id", "f", "9", "a"], ["default", ["id", "f", "9"], "a"]),
        ("request run.project rest...", ["id", "f", "9", "mine", "a"], ["mine", ["id", "f", "9"], ["a"]]),
    ],
)
def test_an_operation_gets_the_words_of_a_call_as_its_header_says(
    make: Make, client: redis.Redis, args: str, words: list[str], given: list[object]
) -> None:
    body = (
        "local got = {run.project, ...}\nfor n, one in ipairs(got) do\n"
        "if type(one) == 'table' and one.id then got[n] = {one.id, one.fingerprint, one.keep_ms} end\nend\nreturn got"
    )
    run = "-- owns: none\nreturn function(run, prefix) run.project = run.project or 'default' return run end"
    library = make(one=operation(body, args=args), m_run=run)
    with loaded(client, library):
        assert client.fcall(library.function("one"), 1, "fc:{p}:", *words) == given


def test_keys_are_those_of_the_partition(make: Make, client: redis.Redis) -> None:
    library = make(one=operation("return {run.keys.item, run.keys.events, run.keys.drains, run.keys.prefix}"))
    with loaded(client, library):
        for _ in range(2):
            assert client.fcall(library.function("one"), 1, "fc:{p}:") == ["fc:{p}:i:", "fc:{p}:ev"]
        fleet = client.fcall(library.function("one"), 1, "fc:{!fleet}:")
    assert fleet == []
    assert "ends where the first is missing: the fleet has no items"


def test_each_function_has_the_digest_of_its_library(make: Make, client: redis.Redis) -> None:
    library = make(one=operation("return 1"), two=operation("return 2"))
    digest = library.name.rpartition("_")[2]
    assert re.fullmatch("[0-9a-f]{16}", digest)
    with loaded(client, library):
        (listed,) = client.function_list(library.name)
        names = {dict(zip(one[::2], one[1::2], strict=True))["name"] for one in dict(_pairs(listed))["functions"]}
    assert names == {f"fleet_made_one_{digest}", f"fleet_made_two_{digest}"}
    assert names == {library.function("one"), library.function("two")}


def test_versions_of_a_library_stand_side_by_side(make: Make, client: redis.Redis) -> None:
    old = make(one=operation("return 'old', a.name()", "a"), m_a=module("a"))
    same = make(one=operation("-- Why.\n\n  return 'old', a.name() -- so", "a"))
    new = make(one=operation("return 'new', a.name()", "a"))
    module_changed = make(m_a=module("a").replace("'a'", "'b'"), one=operation("return 'new', a.name()", "a"))
    assert same.name == old.name
    assert len({old.name, new.name, module_changed.name}) == 3
    with loaded(client, old, new):
        assert client.fcall(old.function("one"), 1, "fc:{p}:") == "old"
        assert client.fcall(new.function("one"), 1, "fc:{p}:") == "new"


def test_what_no_operation_reaches_is_not_in_a_library(make: Make, client: redis.Redis) -> None:
    parts = (
        "local a = {}", "local function used() return 'used' end", "local function unused() return b.name() end",
        "function a.one() return used() end", "function a.two()\n  return unused()\nend",
        "function a.dynamic(name)\n  return a[name]()\nend", "return a",
    )  # fmt: skip
    text = "-- owns: none\nlocal b = require 'b'\n" + "\n".join(parts) + "\n"
    library = make(one=operation("return 'x'..a.one()", "a"), m_a=text, m_b=module("b"))
    assert "unused" not in library.text
    assert "m.b=" not in library.text
    with loaded(client, library):
        assert client.fcall(library.function("one"), 1, "fc:{p}:") == "xused"
    assert "unused" in make(one=operation("return a.two()", "a"), m_a=text, m_b=module("b")).text
    assert "unused" in make(one=operation("return a.dynamic('two')", "a"), m_a=text, m_b=module("b")).text
    assert "unused" in make(one=operation("return run.f(a)", "a"), m_a=text, m_b=module("b")).text


def test_what_an_operation_may_write_follows_from_what_its_modules_own(make: Make) -> None:
    library = make(
        own=operation("", owns="spent"), none=operation("", "b"), reads=operation("", "a", "read"),
        changes=operation("", "a", owns="spent"), m_a=module("a", "c", owns="item.k beneath"), m_b=module("b"),
        m_c=module("c", owns="ranked"),
    )  # fmt: skip
    assert {name: library.writes(name) for name in ("own", "none", "reads", "changes")} == {
        "own": {"spent"}, "none": set(), "reads": set(), "changes": {"spent", "item.k", "beneath", "ranked"},
    }  # fmt: skip


def test_a_full_server_runs_operations_that_read_or_are_declared_full(make: Make, client: redis.Redis) -> None:
    library = make(
        reads=operation("return redis.call('EXISTS', run.keys.events)"),
        frees=operation("return redis.call('DEL', run.keys.events)", owns="events", full="full: it frees\n"),
        writes=operation("return redis.call('SET', run.keys.events, 1)", owns="events"),
        lies=operation("return redis.call('SET', run.keys.events, 1)"),
    )
    with loaded(client, library):
        client.config_set("maxmemory", 1)
        try:
            assert client.fcall(library.function("reads"), 1, "fc:{p}:") == 0
            assert client.fcall(library.function("frees"), 1, "fc:{p}:") == 0
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                client.fcall(library.function("writes"), 1, "fc:{p}:")
        finally:
            client.config_set("maxmemory", 0)
        with pytest.raises(redis.ResponseError, match="read-only"):
            client.fcall(library.function("lies"), 1, "fc:{p}:")


def test_all_libraries_together_stay_small() -> None:
    load_toolsets(Services(Settings(), Store("redis://127.0.0.1:1"), trust_self_reported))
    libraries = {IDENTITY, FEED, WEBHOOKS, WORKERS, *(script.function_library for script in Script.registered())}
    sizes = {
        one.package: len(one.text.encode()) for one in libraries if not one.package.startswith(("tests", "benchmarks"))
    }
    assert len(sizes) == 10
    assert sum(sizes.values()) <= MOST_BYTES, sizes


def _pairs(flat: object) -> Iterator[tuple[str, list[list[str]]]]:
    assert isinstance(flat, list)
    yield from zip(flat[::2], flat[1::2], strict=True)
