"""Merges the section with the files that it includes, and remembers the place of every entry.

Included files are merged in order, and the including file on top of them: mappings are merged deeply, of single values
the last one counts, and lists are concatenated. ``${NAME}`` is replaced by an environment variable; if that is not set,
the text stays as it is. In executors and connections it is not replaced here, but in the process that executes them,
so that secrets are in no other process.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from coordinator.settings.paths import located
from coordinator.settings.problems import KeyPath, SettingsError, shown
from coordinator.settings.sections.connections import VARIABLE

if TYPE_CHECKING:
    from coordinator.settings.yaml_file import Lines

Places = dict[KeyPath, str]
"""Where in the settings -> ``/etc/fleet/release.yaml:12``."""

SECTION = "gateway"
_LATE = ("executor", "executors", "connections")
"""Below these keys, variables are not replaced here."""
_DIRECTORY, _AUDIT_FILE = "workingDirectory", ("audit", "path")
"""Keys with paths. A relative path starts at the directory of the file that states it."""
_MOST_FILES = 200


class _Node(Struct):
    """A value in a file. Mappings and lists contain nodes."""

    value: Any
    file: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def expanded(section: Any, lines: Lines, file: Path) -> tuple[Any, Places]:
    """The section merged with all that it includes, and the place of every entry.

    Args:
        section: the section as the file has it.
        lines: the lines of the whole file.

    Raises:
        SettingsError: an included file cannot be used, or files include each other; with its place.
    """
    root = _node(section, lines, file, (SECTION,))
    merged = _included(root, file, (file.resolve(),), _Budget())
    places: Places = {}
    return _plain(merged, (SECTION,), places, False), places


class _Budget:
    """How many files may still be read."""

    def __init__(self) -> None:
        self.left = _MOST_FILES

    def take(self, place: str) -> None:
        if not self.left:
            raise SettingsError([f"{place}: more than {_MOST_FILES} files are included"])
        self.left -= 1


def _node(value: Any, lines: Lines, file: Path, at: KeyPath, line: int = 1) -> _Node:
    line = lines.get(at, line)
    if isinstance(value, dict):
        value = {key: _node(entry, lines, file, (*at, key), line) for key, entry in value.items()}
    elif isinstance(value, list):
        value = [_node(entry, lines, file, (*at, number), line) for number, entry in enumerate(value)]
    return _Node(value, file, line)


def _included(node: _Node, file: Path, above: tuple[Path, ...], budget: _Budget) -> _Node:
    """The content of a file, merged with what it includes."""
    if not isinstance(node.value, dict) or "include" not in node.value:
        return node
    stated = node.value["include"]
    entries = stated.value if isinstance(stated.value, list) else [stated]
    result: _Node | None = None
    for entry in entries:
        if not isinstance(entry.value, str) or not entry.value:
            raise SettingsError([f"{entry.place}: gateway.include must be a list of files, not {_said(entry)}"])
        other = located(_filled(entry.value), file.parent, f"{entry.place}: gateway.include")
        if other.resolve() in above:
            chain = " -> ".join(str(one) for one in (*above, other.resolve()))
            raise SettingsError([f"{entry.place}: the files include each other: {chain}"])
        budget.take(entry.place)
        body = _included(_read(other, entry.place), other, (*above, other.resolve()), budget)
        result = body if result is None else _merged(result, body)
    own = _Node({key: value for key, value in node.value.items() if key != "include"}, node.file, node.line)
    return own if result is None else _merged(result, own)


def _said(node: _Node) -> str:
    """A wrong entry, in words."""
    if isinstance(node.value, dict | list):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    return shown(node.value)


def _read(file: Path, place: str) -> _Node:
    """Reads an included file: it holds either the keys of the section, or the section itself."""
    # Imported here, because importing the YAML parser takes 100 ms, and many processes have no file.
    from coordinator.settings.yaml_file import parse_yaml, text_of

    text, reason = text_of(file)
    if text is None:
        raise SettingsError([f"{place}: cannot read {file}: {reason}"])
    data, lines = parse_yaml(text, file)
    if list(data) == [SECTION]:
        return _node(data[SECTION], lines, file, (SECTION,))
    return _node(data, lines, file, ())


def _merged(lower: _Node, upper: _Node) -> _Node:
    if isinstance(lower.value, dict) and isinstance(upper.value, dict):
        merged = dict(lower.value)
        for key, node in upper.value.items():
            merged[key] = _merged(merged[key], node) if key in merged else node
        return _Node(merged, upper.file, upper.line)
    if isinstance(lower.value, list) and isinstance(upper.value, list):
        return _Node([*lower.value, *upper.value], upper.file, upper.line)
    return upper


def _plain(node: _Node, at: KeyPath, places: Places, late: bool) -> Any:
    """The value as plain JSON data."""
    places[at] = node.place
    if isinstance(node.value, dict):
        return {key: _plain(entry, (*at, key), places, late or key in _LATE) for key, entry in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(entry, (*at, number), places, late) for number, entry in enumerate(node.value)]
    if isinstance(node.value, str):
        text = node.value if late else _filled(node.value)
        return _relative_to_file(node, text, at) if at[-1] == _DIRECTORY or at[-2:] == _AUDIT_FILE else text
    if isinstance(node.value, dt.date | dt.time):
        return node.value.isoformat()
    if isinstance(node.value, float) and not math.isfinite(node.value):
        raise SettingsError([f"{node.place}: {'.'.join(map(str, at))} must be a finite number"])
    return node.value


def _relative_to_file(node: _Node, text: str, at: KeyPath) -> str:
    """A path relative to its file, made absolute; unless it begins with a variable."""
    if not text or text.startswith("${"):
        return text
    return os.path.normpath(located(text, node.file.parent, f"{node.place}: {'.'.join(map(str, at))}"))


def _filled(text: str) -> str:
    return VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), text)


def nearest(places: Mapping[KeyPath, str], at: KeyPath) -> str | None:
    """The place of an entry, or of the nearest known entry around it."""
    while at:
        if at in places:
            return places[at]
        at = at[:-1]
    return None
