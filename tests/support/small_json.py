"""Files of JSON that programs write, stored small: a line for each element of their largest parts.

``python -m`` this module ``<file>...`` writes them so, after npm has renewed a lock file, or a host was recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/*/node/package-lock.json", "tests/transport/hosts/*.json")


def files() -> list[Path]:
    """All that are stored so."""
    return sorted(path for folder in FOLDERS for path in ROOT.glob(folder))


def small(found: dict[str, Any]) -> str:
    """The text of an object, with a line for each element of each of its fields."""
    return _lines("{", [f"{_text(name)}:{_parts(value)}" for name, value in found.items()], "}\n")


def _parts(value: Any) -> str:
    if isinstance(value, dict):
        return _lines("{", [f"{_text(name)}:{_text(one)}" for name, one in value.items()], "}")
    if isinstance(value, list):
        return _lines("[", map(_text, value), "]")
    return _text(value)


def _lines(first: str, elements: Iterable[str], last: str) -> str:
    return "\n".join((first, ",\n".join(elements), last))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main() -> None:
    """Writes the files anew that are named."""
    for path in map(Path, sys.argv[1:]):
        path.write_text(small(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
