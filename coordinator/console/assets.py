"""Static files: scripts and styles.

All of them are served below a digest of them all, so they can be cached for ever, and after an upgrade no page gets an
old one. They are compressed once. The modules of a page are put together into one, so that it needs one request for
them: each becomes a function that returns what the module exports.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2s
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "static"
_TYPES = {".js": b"text/javascript", ".css": b"text/css", ".svg": b"image/svg+xml"}
_IMPORT = re.compile(r"^import \{ ([\w, ]+) \} from '\./(\w+)\.js';$", re.M)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bawait import\(", re.M)


class Asset(NamedTuple):
    type: bytes
    body: bytes
    compressed: bytes


class Assets:
    """The files of ``static``, and the modules of each page, read when the process starts."""

    def __init__(self, pages: Iterable[tuple[str, ...]] = (), source: Path = SOURCE) -> None:
        bodies = {path.name: path.read_bytes() for path in sorted(source.iterdir()) if path.suffix in _TYPES}
        scripts = {name: body.decode() for name, body in bodies.items() if name.endswith(".js")}
        bodies |= {_name(modules): _together(scripts, modules).encode() for modules in sorted(set(pages))}
        digest = blake2s(b"\0".join(b"%b\0%b" % (name.encode(), body) for name, body in bodies.items()))
        self._base = f"/console/static/{digest.hexdigest()[:12]}/"
        self._assets = {
            self._base + name: Asset(_TYPES[Path(name).suffix], body, gzip.compress(body, mtime=0))
            for name, body in bodies.items()
        }

    def url(self, name: str) -> str:
        """Where a file is served. Raises KeyError: there is no such file."""
        if self._base + name not in self._assets:
            raise KeyError(name)
        return self._base + name

    def script(self, modules: tuple[str, ...]) -> str:
        """Where the modules of a page are served. Raises KeyError: there is no such page."""
        return self.url(_name(modules))

    def find(self, path: str) -> Asset | None:
        """The file at a path; None: there is none."""
        return self._assets.get(path)


def _name(modules: tuple[str, ...]) -> str:
    return "-".join(module.removesuffix(".js") for module in modules) + ".js"


def _together(scripts: Mapping[str, str], modules: tuple[str, ...]) -> str:
    """One module that does what some do, and those that they import from, which come first."""
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in texts:
            for imported in _IMPORT.finditer(scripts[name]):
                add(f"{imported[2]}.js")
            texts[name] = _function(name, scripts[name])

    for name in modules:
        add(name)
    return "".join(texts.values())


def _function(name: str, text: str) -> str:
    exported = ", ".join(name[2] for name in _EXPORT.finditer(text))
    text = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const { \1 } = $\2;", text))
    if left := _OTHER.search(text):
        raise ValueError(f"{name}: not a form of import or export that can be put together: {left[0]}")
    return f"// {name}\nconst ${name.removesuffix('.js')} = (() => {{\n{text}return {{ {exported} }};\n}})();\n"
