"""Changes a token file: one change at a time, completely or not at all, keeping its comments.

A text editor does not take our lock. So a concurrent change is detected, and not overwritten.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from coordinator.identity.callers.token_file import (
    Stamp,
    TokenEntry,
    TokenFile,
    TokenFileError,
    is_json,
    load,
    parse_tokens,
    stamp_of,
)

_HEAD = "# Bearer tokens and their callers; `fleet token` writes it. Digests only: no token can be read from it.\n"


def add(path: Path, entry: TokenEntry) -> None:
    """Adds an entry; creates the file, readable by its owner only, if it is missing.

    Raises:
        TokenFileError: the file is wrong, cannot be written, or was changed by somebody else meanwhile.
    """

    def change(entries: list[Any], _: TokenFile) -> None:
        entries.append(_plain(entry))

    _change(path, change, create=True)


def replace(path: Path, make: Callable[[tuple[TokenEntry, ...]], tuple[TokenEntry, TokenEntry]]) -> TokenEntry:
    """Adds an entry in the place of another one, which stays, and returns it.

    Args:
        make: given the entries, returns the one that is replaced, and the new one. What it raises leaves the file as
            it is.

    Raises:
        TokenFileError: as ``remove``.
    """
    made: list[TokenEntry] = []

    def change(entries: list[Any], found: TokenFile) -> None:
        old, fresh = make(found.tokens)
        made.append(fresh)
        for entry in entries:
            if entry["sha256"] == old.sha256:
                entry.pop("replaces", None)
        entries.append(_plain(fresh))

    _change(path, change, create=False)
    return made[0]


def remove(path: Path, doomed: Callable[[TokenEntry], bool]) -> tuple[TokenEntry, ...]:
    """Removes entries and returns them.

    Raises:
        TokenFileError: the file is missing or wrong, cannot be written, or was changed by somebody else meanwhile.
    """
    removed: list[TokenEntry] = []

    def change(entries: list[Any], found: TokenFile) -> None:
        known = {entry.sha256: entry for entry in found.tokens}
        for number in range(len(entries) - 1, -1, -1):
            entry = known[entries[number]["sha256"]]
            if doomed(entry):
                removed.append(entry)
                del entries[number]

    _change(path, change, create=False)
    return tuple(reversed(removed))


def _change(path: Path, change: Callable[[list[Any], TokenFile], None], *, create: bool) -> None:
    try:
        # What a link points to is changed, not the link.
        real = Path(os.path.realpath(path))
        with _locked(real):
            stamp: Stamp | None = None
            try:
                data, stamp = load(real)
            except FileNotFoundError:
                if not create:
                    raise
                data = b"{}" if is_json(real) else _HEAD.encode()
            found = parse_tokens(data, real)
            fresh = _changed(data, real, lambda entries: change(entries, found))
            if fresh is not None:
                parse_tokens(fresh, real)
                _replace(real, fresh, stamp)
    except OSError as error:
        raise TokenFileError(f"cannot change the token file {path}: {error.strerror}") from None


def _changed(data: bytes, path: Path, change: Callable[[list[Any]], None]) -> bytes | None:
    """The file after the change; None if nothing has changed."""
    if is_json(path):
        document = msgspec.json.decode(data)
        if not _apply(document, change):
            return None
        return msgspec.json.format(msgspec.json.encode(document)) + b"\n"
    yaml = YAML(typ="rt")
    yaml.width = 1_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.preserve_quotes = True
    document = yaml.load(data)
    if document is None:
        # The comments of a file without anything else would be lost.
        document = yaml.load(data + b"\ntokens: []\n")
    if not _apply(document, change):
        return None
    for entry in document["tokens"]:
        _make_readable(entry)
    if hasattr(document["tokens"], "fa"):
        document["tokens"].fa.set_block_style()
    out = io.BytesIO()
    yaml.dump(document, out)
    return out.getvalue()


def _apply(document: Any, change: Callable[[list[Any]], None]) -> bool:
    """Changes the list of entries; whether that changed anything."""
    if document.get("tokens") is None:
        document["tokens"] = []
    before = len(document["tokens"])
    change(document["tokens"])
    return len(document["tokens"]) != before


def _make_readable(entry: Any) -> None:
    """Formats the lists of a new entry on one line."""
    for name, value in entry.items():
        if type(value) in (list, tuple):
            entry[name] = CommentedSeq(value)
            entry[name].fa.set_flow_style()


def _plain(entry: TokenEntry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry)
    return plain


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other editors out. The file itself cannot carry the lock: it is replaced."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes, stamp: Stamp | None) -> None:
    """Puts a new file in the place of the one that was read, with its owner and mode."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                old = path.stat()
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if stamp_of(path) != stamp:
            # Changing a long file takes seconds.
            raise TokenFileError(
                f"the token file {path} was changed by somebody else meanwhile: nothing was written, try again"
            )
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
