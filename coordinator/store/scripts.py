"""Scripts as typed objects: what a package's ``store`` declares and ``Store.run`` executes.

    LIBRARY = Library("coordinator.toolsets.items")
    CLAIM = Script(LIBRARY, "claim_item", ClaimReply)
    reply = await store.run(CLAIM, project, request, fingerprint, ...)

The sources are read and checked when the library is made, so a faulty file stops the start of a process and not a
request. KEYS is always one key, the partition's prefix: it routes the call, and all other keys are made from it
(``keys.py``).

With a ``reply`` type, the script returns ``cmsgpack.pack(...)``, and the bytes are decoded into that type. Without
one, the server's value is returned as it is. Two properties of cmsgpack matter: an empty table arrives as an empty
array, and every string as text.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

import hiredis
import msgspec

from coordinator.store import keys
from coordinator.store.errors import ServerError
from coordinator.store.libraries.build import Library
from coordinator.store.libraries.source import REQUEST

R = TypeVar("R")

pack = cast("Callable[[tuple[str | bytes | int, ...]], bytes]", hiredis.pack_command)
"""The words of a command in wire format."""
STORE = Library("coordinator.store")
_LINE = re.compile(r"user_function:\s?(\d+)")


class Script(Generic[R]):
    """One Lua operation of a library: its contract, and how to call it.

    Args:
        library: the library of the package whose ``lua`` directory has the file.
        name: file name without ``.lua``.
        reply: the type that the packed reply is decoded into; None returns the raw value.
        scope: "fleet" for scripts on the fleet-wide partition, called with ``keys.FLEET``; "queue" for those on RQ's
            queues, called with ``keys.QUEUE``.
        rest: a script without arguments that finishes what this script leaves undone to keep each run short. It is
            run until it replies True. If this script leaves something, it replies with a list: its reply and a word.

    Raises:
        ScriptError: there is no such operation.
    """

    _all: ClassVar[weakref.WeakSet[Script[Any]]] = weakref.WeakSet()

    @overload
    def __init__(
        self: Script[Any],
        library: Library,
        name: str,
        reply: None = None,
        *,
        scope: keys.Scope = ...,
        rest: Script[bool] | None = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        library: Library,
        name: str,
        reply: type[R],
        *,
        scope: keys.Scope = ...,
        rest: Script[bool] | None = ...,
    ) -> None: ...

    def __init__(
        self,
        library: Library,
        name: str,
        reply: type[R] | None = None,
        *,
        scope: keys.Scope = "project",
        rest: Script[bool] | None = None,
    ) -> None:
        header = library.header(name)
        self.function_library = library
        self.name = name
        self.scope = scope
        self.rest = rest
        self.errors = header.errors
        self.function = library.function(name)
        """Its name in the server. It ends in the digest of the library, so every version has its own name."""
        self.decode = None if reply is None else msgspec.msgpack.Decoder(reply).decode
        self.remembers = "request" in header.args
        """Whether it keeps a record, so that a call with the same request id gets the same reply again."""
        self.writes = bool(library.writes(name))
        """Whether it may write."""
        self._args = [word for name in header.args for word in (REQUEST if name == "request" else (name,))]
        self._variadic = bool(self._args) and self._args[-1].endswith("...")
        self._fixed = len(self._args) - self._variadic
        self._head = self._pack_head(self._fixed)
        self._skip = len(f"*{self._fixed}\r\n")
        Script._all.add(self)

    @classmethod
    def registered(cls) -> list[Script[Any]]:
        """Every script that this process has made and still holds, by name."""
        return sorted(cls._all, key=lambda script: (script.function_library.package, script.name))

    def forget(self) -> None:
        """Takes the script out of those that are registered, so that no store loads it any more."""
        Script._all.discard(self)

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

    def explain(self, message: str) -> str:
        """The server's error text, with line numbers of the library replaced by those of the source files."""

        def place(match: re.Match[str]) -> str:
            line = int(match[1])
            origins = self.function_library.origins
            return origins[line - 1] if 0 < line <= len(origins) else match[0]

        return f"script {self.name}: {_LINE.sub(place, message)}"

    def _pack_head(self, count: int) -> bytes:
        name = self.function.encode()
        return b"*%d\r\n$5\r\nFCALL\r\n$%d\r\n%s\r\n$1\r\n1\r\n" % (count + 4, len(name), name)

    def _miscounted(self, count: int) -> str:
        wanted = f"{'at least ' if self._variadic else ''}{self._fixed}"
        return f"script {self.name} takes {wanted} arguments ({' '.join(self._args)}), not {count}"

    def __repr__(self) -> str:
        return f"Script({self.function_library.package}:{self.name})"


def decoded(decode: Callable[[Any], R], reply: Any) -> R:
    """What a script answered.

    Raises:
        ServerError: it cannot be read: something in the store is not as the product writes it.
    """
    try:
        return decode(reply)
    except ValueError as error:
        raise ServerError(f"an answer of the store cannot be read: {error}") from None


def pack_key(project: str) -> bytes:
    """The partition prefix as one packed command word.

    Raises:
        ToolFailure: VALIDATION_ERROR for a bad project name.
    """
    prefix = keys.prefix(project)
    return b"$%d\r\n%s\r\n" % (len(prefix), prefix)
