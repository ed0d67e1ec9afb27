"""Caches flattened scripts on disk, as Python caches bytecode: flattening all of them costs a process a second.

A script is kept in ``__pycache__`` beside its source, with a digest of everything it was made from: its file and
includes, the names of other files in the include folders, and the code that flattens. If the digest differs, the
script is flattened again. If the folder is not writable, or Python writes no bytecode, every process flattens its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from coordinator.store import keys, lua_library, lua_names, lua_prune, lua_source
from coordinator.store.lua_source import Source

_MAKERS = [str(module.__file__) for module in (keys, lua_library, lua_names, lua_prune, lua_source)]


class _Kept(msgspec.Struct):
    """The content of a cache file."""

    digest: bytes
    source: Source


_decode = msgspec.msgpack.Decoder(_Kept).decode


def read(path: Path, shared: Sequence[Path], scope: keys.Scope) -> Source:
    """The flattened script; see ``lua_source.read``.

    Raises:
        ScriptError: the script or one of its includes is at fault.
    """
    # Named as Python names its bytecode, so that PYTHONPYCACHEPREFIX applies here too.
    cache = Path(importlib.util.cache_from_source(str(path))).with_suffix(".script")
    places = [path.parent / "include", *shared]
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        kept = _decode(cache.read_bytes())
        if kept.digest == _digest(kept.source.files, places, scope):
            return kept.source
    source = lua_source.read(path, shared, scope)
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):
            _keep(cache, _Kept(_digest(source.files, places, scope), source))
    return source


def _digest(files: Iterable[str], places: Iterable[Path], scope: str) -> bytes:
    """A digest of everything that the flattened script depends on."""
    total = hashlib.blake2b(scope.encode(), digest_size=16)
    for place in places:
        names = sorted(os.listdir(place)) if place.is_dir() else ()
        total.update("\0".join((str(place), *names)).encode())
    for file in (*files, *_MAKERS):
        content = Path(file).read_bytes()
        total.update(b"%d " % len(content) + content)
    return total.digest()


def _keep(cache: Path, kept: _Kept) -> None:
    """Writes the file whole or not at all: other processes may be reading it."""
    cache.parent.mkdir(exist_ok=True)
    draft = cache.with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.msgpack.encode(kept))
    draft.replace(cache)
