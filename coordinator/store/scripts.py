"""Scripts as typed objects: what a package's ``store`` declares and ``Store.run`` executes.

    CLAIM = Script("coordinator.toolsets.items", "claim_item", ClaimReply)
    reply = await store.run(CLAIM, project, request, fingerprint, ...)

The source is read, checked and flattened when the object is made (and cached by ``lua_cache.py``), so a faulty script
stops the start of a process and not a request. KEYS is always one key, the partition's prefix: it routes the call, and
the script makes every other key from it (``keys.py``).

With a ``reply`` type, the script returns ``cmsgpack.pack(...)``, and the bytes are decoded into that type. Without
one, the server's value is returned as it is. Mind two traits of cmsgpack: an empty table arrives as an empty array,
and every string as text.
"""

from __future__ import annotations

import importlib.util
import re
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

import hiredis
import msgspec

from coordinator.store import keys, lua_cache
from coordinator.store.errors import ScriptError

R = TypeVar("R")

pack = cast("Callable[[tuple[str | bytes | int, ...]], bytes]", hiredis.pack_command)
"""The words of a command in wire format."""
_SHARED = Path(__file__).parent / "lua" / "include"
_LINE = re.compile(r"user_function:\s?(\d+)")


class Script(Generic[R]):
    """One Lua script of a package: its contract, its flattened source and how to call it.

    Args:
        package: import name of the package whose ``lua`` directory has the file.
        name: file name without ``.lua``.
        reply: the type that the packed reply is decoded into; None returns the raw value.
        scope: "fleet" for scripts on the fleet-wide partition, called with ``keys.FLEET``.
        includes: further packages whose includes the script may use.
        rest: a script without arguments that finishes what this script leaves undone to keep each run short. It is
            run until it replies True. If this script leaves something, it replies with a list: its reply and a word.

    Raises:
        ScriptError: the source or one of its includes is at fault.
    """

    _all: ClassVar[weakref.WeakSet[Script[Any]]] = weakref.WeakSet()

    @overload
    def __init__(
        self: Script[Any],
        package: str,
        name: str,
        reply: None = None,
        *,
        scope: keys.Scope = ...,
        includes: Sequence[str] = ...,
        rest: Script[bool] | None = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        package: str,
        name: str,
        reply: type[R],
        *,
        scope: keys.Scope = ...,
        includes: Sequence[str] = ...,
        rest: Script[bool] | None = ...,
    ) -> None: ...

    def __init__(
        self,
        package: str,
        name: str,
        reply: type[R] | None = None,
        *,
        scope: keys.Scope = "project",
        includes: Sequence[str] = (),
        rest: Script[bool] | None = None,
    ) -> None:
        shared = [_SHARED, *(_directory(other) / "include" for other in includes)]
        source = lua_cache.read(_directory(package) / f"{name}.lua", shared, scope)
        self.package = package
        self.name = name
        self.scope = scope
        self.rest = rest
        self.source = source
        self.text = source.text
        self.errors = source.header.errors
        self.function = source.function
        """Its name in the server. It ends in a digest of the text, so every version has its own name."""
        self.decode = None if reply is None else msgspec.msgpack.Decoder(reply).decode
        self.remembers = source.header.args[:1] == ("request",)
        """Whether it keeps a record, so that a call with the same request id gets the same reply again."""
        self._fixed = len(source.header.args) - source.header.variadic
        self._variadic = source.header.variadic
        self._head = self._pack_head(self._fixed)
        self._skip = len(f"*{self._fixed}\r\n")
        Script._all.add(self)

    @classmethod
    def registered(cls) -> list[Script[Any]]:
        """Every script that this process has made and still holds, by name."""
        return sorted(cls._all, key=lambda script: (script.package, script.name))

    def pack(self, key: bytes, args: tuple[str | bytes | int, ...]) -> bytes:
        """The FCALL command in wire format; ``key`` is the packed partition prefix (``pack_key``).

        Raises:
            TypeError: the number of arguments is not the declared one, or one has a wrong type.
        """
        count = len(args)
        if count == self._fixed:
            return self._head + key + pack(args)[self._skip :] if count else self._head + key
        if not self._variadic or count < self._fixed:
            raise TypeError(self._miscounted(count))
        return self._pack_head(count) + key + pack(args)[len(f"*{count}\r\n") :]

    def pack_load(self) -> bytes:
        """The command that loads the function into the server. Loading it again changes nothing."""
        return pack(("FUNCTION", "LOAD", "REPLACE", self.text))

    def explain(self, message: str) -> str:
        """The server's error text, with line numbers of the flattened text replaced by those of the source files."""

        def place(match: re.Match[str]) -> str:
            line = int(match[1])
            return self.source.origins[line - 1] if 0 < line <= len(self.source.origins) else match[0]

        return f"script {self.name}: {_LINE.sub(place, message)}"

    def _pack_head(self, count: int) -> bytes:
        name = self.function.encode()
        return b"*%d\r\n$5\r\nFCALL\r\n$%d\r\n%s\r\n$1\r\n1\r\n" % (count + 4, len(name), name)

    def _miscounted(self, count: int) -> str:
        wanted = f"{'at least ' if self._variadic else ''}{self._fixed}"
        return f"script {self.name} takes {wanted} arguments ({' '.join(self.source.header.args)}), not {count}"

    def __repr__(self) -> str:
        return f"Script({self.package}:{self.name})"


def pack_key(project: str) -> bytes:
    """The partition prefix as one packed command word.

    Raises:
        ToolFailure: VALIDATION_ERROR for a bad project name.
    """
    prefix = keys.prefix(project)
    return b"$%d\r\n%s\r\n" % (len(prefix), prefix)


def _directory(package: str) -> Path:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ScriptError(f"'{package}' is not an importable package")
    return Path(spec.submodule_search_locations[0]) / "lua"
