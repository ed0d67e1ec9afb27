"""Scripts as objects: argument counts, replies, and where an error happened."""

from __future__ import annotations

import re

import hiredis
import msgspec
import pytest

from coordinator.store import Library, Script, ScriptError
from coordinator.store.scripts import pack_key
from tests.store.calls import BUMP, ECHO, FAULTY, FIXTURES, REFUSE

KEY = pack_key("default")


def words(command: bytes) -> list[bytes]:
    """The words of one packed command, as a server reads them."""
    reader = hiredis.Reader()
    reader.feed(command)
    parsed: list[bytes] = reader.gets()
    assert not reader.has_data()
    return parsed


def test_a_call_is_one_of_a_function_on_the_project() -> None:
    name = BUMP.function.encode()
    assert words(BUMP.pack(KEY, ("a",))) == [b"FCALL", name, b"1", b"fc:{default}:", b"a"]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 97, 98, 1000])
def test_any_number_of_further_arguments_is_packed(count: int) -> None:
    rest = tuple(f"r{n}" for n in range(count))
    assert words(ECHO.pack(KEY, ("a", 1, *rest)))[4:] == [b"a", b"1", *(word.encode() for word in rest)]


def test_arguments_may_be_text_bytes_and_integers() -> None:
    assert words(ECHO.pack(KEY, ("é\r\n", -(2**60), b"\0\xff\r\n")))[4:] == [
        "é\r\n".encode(), str(-(2**60)).encode(), b"\0\xff\r\n",
    ]  # fmt: skip


@pytest.mark.parametrize(("script", "args"), [(BUMP, ()), (BUMP, ("a", "b")), (ECHO, ()), (ECHO, ("a",))])
def test_a_wrong_number_of_arguments_is_refused_at_once(script: Script[object], args: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match=rf"script {script.name} takes .* not {len(args)}"):
        script.pack(KEY, args)


@pytest.mark.parametrize("argument", [None, True, 1.5j, ["a"], {}])
def test_an_argument_of_another_type_is_refused_at_once(argument: object) -> None:
    with pytest.raises(TypeError):
        BUMP.pack(KEY, (argument,))  # type: ignore[arg-type]


def test_scripts_are_known_by_their_names_and_what_they_do() -> None:
    again = Script(FIXTURES, "bump")
    assert again.function == BUMP.function
    assert re.fullmatch(r"fleet_scripts_bump_[0-9a-f]{16}", BUMP.function)
    assert re.fullmatch(r"fleet_scripts_refuse_[0-9a-f]{16}", REFUSE.function)
    assert again in Script.registered()


def test_a_released_script_is_not_loaded_any_more() -> None:
    name = repr(Script(FAULTY, "uncompilable"))
    assert name not in map(repr, Script.registered())


def test_line_numbers_in_errors_are_those_of_the_files() -> None:
    lines = BUMP.function_library.text.splitlines()
    at = next(n for n, line in enumerate(lines, start=1) if "INCRBY" in line)
    assert BUMP.explain(f"ERR user_function:{at}: bad") == "script bump: ERR modules/counter.lua:7: bad"
    assert BUMP.explain("ERR user_function: 99999: bad") == "script bump: ERR user_function: 99999: bad"


def test_a_reply_type_decodes_what_the_script_packed() -> None:
    class Reply(msgspec.Struct, array_like=True):
        text: str
        number: int
        rest: list[str]

    script = Script(FIXTURES, "echo", Reply)
    assert script.decode is not None
    assert script.decode(msgspec.msgpack.encode(["a", 1, []])) == Reply("a", 1, [])


@pytest.mark.parametrize("package", ["no.such.package", "no_such_package", "tests.support.wait"])
def test_a_missing_package_is_reported(package: str) -> None:
    with pytest.raises(ScriptError, match=f"'{package}' is not an importable package"):
        Library(package)


def test_a_missing_script_is_reported() -> None:
    with pytest.raises(ScriptError, match=r"no such script in .*: no_such_script"):
        Script(FIXTURES, "no_such_script")
