"""Static files: scripts and styles.

All of them are served below a digest of them all, so they can be cached for ever, and after an upgrade no page gets an
old one. They are compressed once.
"""

from __future__ import annotations

import gzip
from hashlib import blake2s
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "static"
_TYPES = {".js": b"text/javascript", ".css": b"text/css", ".svg": b"image/svg+xml"}


class Asset(NamedTuple):
    """A file."""

    type: bytes
    body: bytes
    compressed: bytes


class Assets:
    """The files of ``static``, read when the process starts."""

    def __init__(self, source: Path = SOURCE) -> None:
        found = {path.name: path for path in sorted(source.iterdir()) if path.suffix in _TYPES}
        bodies = {name: path.read_bytes() for name, path in found.items()}
        digest = blake2s(b"\0".join(b"%b\0%b" % (name.encode(), body) for name, body in bodies.items()))
        self._base = f"/console/static/{digest.hexdigest()[:12]}/"
        self._assets = {
            self._base + name: Asset(_TYPES[found[name].suffix], body, gzip.compress(body, mtime=0))
            for name, body in bodies.items()
        }

    def url(self, name: str) -> str:
        """Where a file is served. Raises KeyError: there is no such file."""
        if self._base + name not in self._assets:
            raise KeyError(name)
        return self._base + name

    def find(self, path: str) -> Asset | None:
        """The file at a path; None: there is none."""
        return self._assets.get(path)
