"""Flattened scripts on disk: taken as they were kept, and made anew when anything of them has changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.store import lua_cache, lua_source
from coordinator.store.errors import ScriptError
from coordinator.store.lua_source import Source

HEADER = "--[[\npurpose: p\nguarantee: g\nargs: none\nreply: r\nerrors: none\n--]]\n"
Read = Callable[[], Source]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that includes a file of its own and one that is shared; whatever reads it may keep it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for folder, name in (("own/include", "near"), ("shared", "far")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{name}.lua").write_text(f"local function {name}() return '{name}' end\n")
    path = tmp_path / "own" / "script.lua"
    path.write_text(HEADER + "-- @include near\n-- @include far\nreturn near() .. far()\n")
    return path


@pytest.fixture
def read(script: Path, tmp_path: Path) -> Read:
    return lambda: lua_cache.read(script, [tmp_path / "shared"], "project")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Scripts that were made, not taken."""
    paths: list[Path] = []
    make = lua_source.read

    def counted(path: Path, *more: object) -> Source:
        paths.append(path)
        return make(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(lua_source, "read", counted)
    return paths


def kept(script: Path) -> Path:
    (file,) = (script.parent / "__pycache__").iterdir()
    return file


def test_what_was_made_once_is_taken(read: Read, made: list[Path], script: Path) -> None:
    first = read()
    assert made == [script]
    assert read() == first == lua_source.read(script, [script.parents[1] / "shared"])
    assert len(made) == 2, "the second is this test's own"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ("own/script.lua", HEADER + "-- @include near\nreturn near()\n"),
        ("own/include/near.lua", "local function near() return 'NEAR' end\n"),
        ("shared/far.lua", "local function far() return 'FAR' end\n"),
    ],
)
def test_whatever_changes_has_it_made_anew(
    read: Read, made: list[Path], tmp_path: Path, changed: str, text: str
) -> None:
    before = read()
    (tmp_path / changed).write_text(text)
    after = read()
    assert len(made) == 2
    assert after.text != before.text
    assert read() == after
    assert len(made) == 2


def test_a_second_include_of_the_name_is_still_a_fault(read: Read, script: Path) -> None:
    read()
    (script.parent / "include" / "far.lua").write_text("local function far() return 1 end\n")
    with pytest.raises(ScriptError, match="exists twice"):
        read()


def test_an_include_that_is_gone_is_still_a_fault(read: Read, tmp_path: Path) -> None:
    read()
    (tmp_path / "shared" / "far.lua").unlink()
    with pytest.raises(ScriptError, match="no include 'far'"):
        read()


def test_the_scope_counts(read: Read, made: list[Path], script: Path) -> None:
    read()
    lua_cache.read(script, [script.parents[1] / "shared"], "fleet")
    assert len(made) == 2


@pytest.mark.parametrize("rubbish", [b"", b"\x81", b"\x92\xc4\x01x\xc0"])
def test_a_broken_file_is_replaced(read: Read, made: list[Path], script: Path, rubbish: bytes) -> None:
    first = read()
    kept(script).write_bytes(rubbish)
    assert read() == first
    assert read() == first
    assert len(made) == 2


def test_where_nothing_can_be_written_it_is_made_each_time(read: Read, made: list[Path], script: Path) -> None:
    (script.parent / "__pycache__").write_text("in the way")
    assert read() == read()
    assert len(made) == 2


def test_whoever_writes_no_bytecode_writes_none_of_it(
    read: Read, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    read()
    assert not (script.parent / "__pycache__").exists()
